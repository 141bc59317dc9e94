"""What the benchmarks of the SWE-bench family share."""
