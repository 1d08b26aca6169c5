"""The flight recorder: lives inside a training process, keeps a bounded history, writes bundles, never hurts the run."""
