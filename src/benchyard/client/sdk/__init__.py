"""`Benchyard` and `AsyncBenchyard`: devboxes, scenarios, benchmarks and runs as objects."""

from benchyard.client.sdk.benchyard import AsyncBenchyard, Benchyard

__all__ = ["AsyncBenchyard", "Benchyard"]
