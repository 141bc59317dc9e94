"""Modules shared by the benchmarks of the SWE-bench family."""
