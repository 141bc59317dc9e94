"""Definitions of runs: scenarios, benchmarks made of them, and custom scorers."""
