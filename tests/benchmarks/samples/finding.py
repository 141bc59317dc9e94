"""Where real samples of public benchmarks are, on machines that have them."""

import os
from pathlib import Path

import pytest

OWN = Path(__file__).parent
"""Samples of our own making: a folder for each benchmark."""


def sample(path: str) -> Path:
    """A file or folder of the real samples; skips the test where there are none."""
    root = Path(os.environ.get("BENCHYARD_SAMPLES") or Path(__file__).parents[4] / "shared" / "data")
    if not (root / path).exists():
        pytest.skip(f"no real sample {path} under {root}; BENCHYARD_SAMPLES names the folder that has them")
    return root / path
