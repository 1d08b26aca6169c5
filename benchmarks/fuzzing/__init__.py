"""Files that are not what they seem, for `benchmarks.fuzz`: made from a seed, and read under watch."""
