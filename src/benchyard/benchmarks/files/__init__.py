"""Scenarios and benchmarks as folders that people keep in git: read, written, compared."""
