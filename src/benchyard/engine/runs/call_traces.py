"""What the calls of a grant come to as traces; done in workers, since agents choose how much they say."""

import json
from pathlib import Path
from typing import Any, BinaryIO

from benchyard.engine.redaction import Scrubber
from benchyard.gateway.records.reader import read_calls, redacted_copy
from benchyard.gateway.trajectory.builder import TrajectoryOwner, trajectory_of


def make_trajectory(
    _content: BinaryIO, file: str, about: dict[str, Any], trailing: dict[str, str] | None, secrets: list[str]
) -> bytes:
    """The trajectory of all calls that a grant's file has, without secrets; nothing where it has none."""
    calls = list(read_calls(Path(file)))
    if not calls:
        return b""
    made = trajectory_of(calls, TrajectoryOwner(**about), trailing)
    del calls
    return Scrubber(secrets).data(json.dumps(made, ensure_ascii=False).encode(errors="replace"))


def make_shown_calls(_content: BinaryIO, file: str, secrets: list[str]) -> bytes:
    """A copy of a grant's file without secrets."""
    return redacted_copy(Path(file), Scrubber(secrets).data)
