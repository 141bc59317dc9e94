"""Benchyard: run AI agents on benchmarks in sandboxes, score them, and make them better."""
