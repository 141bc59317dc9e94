"""WHAT is run: scenarios and benchmarks as folders that people keep in git, and those that are shipped."""
