"""Benchyard: run AI agents on benchmarks in sandboxes, score them, and make them better."""

import importlib

__all__ = ["AsyncBenchyard", "Benchyard"]


def __getattr__(name: str) -> object:
    # Loaded by who uses it: what runs in a devbox imports this package too, and has no other.
    if name in __all__:
        return getattr(importlib.import_module("benchyard.client.sdk"), name)
    raise AttributeError(f"module 'benchyard' has no attribute {name!r}")
