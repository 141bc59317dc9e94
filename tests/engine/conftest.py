"""Devboxes outlive their engine: what a test leaves is ended after it, not by its lease an hour later."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchyard.testing.contracts.driver_fixture import holders


@pytest.fixture(autouse=True)
def _ended_keepers(tmp_path: Path) -> Iterator[None]:
    yield
    if any(tmp_path.glob("host")) or any(tmp_path.glob("*/host")):
        for pid in holders(tmp_path):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if b"guest.main_process" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
