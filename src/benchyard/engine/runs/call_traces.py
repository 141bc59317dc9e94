"""Traces of a grant's calls; made in workers, since their size is up to agents."""

import json
from pathlib import Path
from typing import Any, BinaryIO

from benchyard.engine.redaction import Scrubber
from benchyard.gateway.records.reader import read_calls, redacted_copy
from benchyard.gateway.trajectory.builder import TrajectoryOwner, trajectory_of


def make_trajectory(
    _content: BinaryIO, file: str, about: dict[str, Any], trailing: dict[str, str] | None, secrets: list[str]
) -> bytes:
    """Return the trajectory of all calls in a grant's file, without secrets; empty if there are none."""
    calls = list(read_calls(Path(file)))
    if not calls:
        return b""
    made = trajectory_of(calls, TrajectoryOwner(**about), trailing)
    del calls
    return Scrubber(secrets).data(json.dumps(made, ensure_ascii=False).encode(errors="replace"))


def make_shown_calls(_content: BinaryIO, file: str, secrets: list[str]) -> bytes:
    """Return a copy of a grant's file without secrets."""
    return redacted_copy(Path(file), Scrubber(secrets).data)
