"""The flight recorder: lives in a training process, keeps a bounded history, writes bundles, never hurts the run."""
