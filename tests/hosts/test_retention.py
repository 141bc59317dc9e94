import os
from pathlib import Path

from benchyard.hosts.journal import Entry, Journal
from benchyard.hosts.requests import StartRequest


def noted(journal: Journal, folder: Path, id: str, seconds: float) -> None:
    journal.write(Entry(StartRequest(id=id, image="host"), "host", should_run=False))
    os.utime(folder / id / "request.json", (seconds, seconds))


def test_only_old_devboxes_without_a_disk_are_forgotten(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.open()
    noted(journal, tmp_path, "old", 1000)
    noted(journal, tmp_path, "new", 3000)
    noted(journal, tmp_path, "resting", 1000)
    (tmp_path / "resting" / "changes").mkdir()
    (tmp_path / "half-made").mkdir()
    assert journal.with_disk() == {"resting"}
    assert journal.ended_before(2000) == {"old"}
