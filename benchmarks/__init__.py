"""What the recorder costs, as ratios of interleaved runs. See `overhead.py`."""
