"""Tests of msforensics."""
