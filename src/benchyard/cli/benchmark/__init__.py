"""`benchyard benchmark` and `benchyard scenario`."""
