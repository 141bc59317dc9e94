"""The host's journal: what a killed host leaves of devboxes that it forgot."""

from pathlib import Path

from benchyard.hosts.journal import Journal


def test_folders_that_hold_nothing_any_more_go_when_it_is_opened(tmp_path: Path) -> None:
    for name in ("empty", "noted"):
        (tmp_path / "devboxes" / name).mkdir(parents=True)
    (tmp_path / "devboxes" / "noted" / "request.json").write_text("{}")
    Journal(tmp_path / "devboxes").open()
    assert [path.name for path in (tmp_path / "devboxes").iterdir()] == ["noted"]
