"""The demonstration: a training script that users could have written, with a fault that users really write."""
