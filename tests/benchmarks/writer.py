"""Scenario folders for tests."""

from pathlib import Path
from typing import Any

import yaml

MINIMAL: dict[str, Any] = {
    "name": "a task",
    "scorers": [{"name": "check", "type": "command_scorer", "command": "true"}],
}


def folder(place: Path, text: str | None = None, /, **files: str) -> Path:
    """A scenario folder with this YAML, or the smallest there is, and files by their names."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "scenario.yaml").write_text(yaml.safe_dump(MINIMAL) if text is None else text)
    (place / "problem.md").write_text("Do it.\n")
    for name, content in files.items():
        put(place, name, content)
    return place


def put(place: Path, name: str, content: str | bytes) -> Path:
    """One more file."""
    target = place / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content.encode() if isinstance(content, str) else content)
    return target
