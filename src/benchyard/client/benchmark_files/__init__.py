"""Benchmarks as files: pushed and pulled as folders, imported, exported as Harbor tasks."""
