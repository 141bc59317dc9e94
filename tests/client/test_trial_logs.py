"""Logs as folders: safe names, and archives that lie."""

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchyard.client.job_files import trial_logs
from benchyard.client.job_files.trial_logs import path_segment, trial_folders, unpack_logs
from benchyard.errors import TooLarge
from benchyard.models.jobs import BenchmarkJobView
from benchyard.models.trials import TrialView
from tests.client.test_jobs import job, trial


@given(some.text())
def test_any_name_is_one_safe_part_of_a_path(name: str) -> None:
    found = path_segment(name)
    assert found
    assert Path("a", found).parts == ("a", found)
    assert not found.startswith(".")
    assert len(found) <= trial_logs.LONGEST_NAME
    assert found.isascii()
    assert found.isprintable()


def packed(*files: tuple[str, bytes]) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    file.seek(0)
    return file


def test_an_archive_says_nothing_about_where_files_go(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    lying = packed(
        ("../../outside.log", b"1"),
        ("/etc/passwd", b"2"),
        ("a\\..\\..\\b.log", b"3"),
        ("folder/", b""),
        ("results.json", b"4"),
        ("b.log", b"5"),
        ("B.log", b"6"),
        ("...", b"7"),
    )
    unpack_logs(lying, folder)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "outside.log": "1",
        "passwd": "2",
        "b.log": "3",
        "log-results.json": "4",
        "b.log-2": "5",
        "B.log-3": "6",
        "unnamed": "7",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_an_archive_that_grows_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_logs, "MOST_BYTES", 1024)
    with pytest.raises(TooLarge, match="when unpacked"):
        unpack_logs(packed(("zeros", bytes(10_000_000))), tmp_path)
    assert (tmp_path / "zeros").stat().st_size == 0
    monkeypatch.setattr(trial_logs, "MOST_FILES", 2)
    with pytest.raises(TooLarge, match="3 files"):
        unpack_logs(packed(("a", b""), ("b", b""), ("c", b"")), tmp_path)


def view(**fields: Any) -> TrialView:
    return TrialView.model_validate({**trial(), **fields})


def test_every_trial_has_a_place_of_its_own() -> None:
    seen = BenchmarkJobView.model_validate(
        job(
            job_spec={
                "scenario_ids": [],
                "agent_configs": [{"name": "a", "model_name": "m/1"}, {"name": "a", "model_name": "m_1"}],
            }
        )
    )
    trials = [
        view(agent=0, scenario_name="x/y"),
        view(agent=0, scenario_id="scn_2", scenario_name="x_y"),
        view(agent=1, scenario_name="x/y"),
        view(agent=1, scenario_name="x/y", is_superseded=True),
    ]
    places = [str(each.folder) for each in trial_folders(seen, trials, trials, Path("d"))]
    assert places == [
        "d/a_m_1/x_y",
        "d/a_m_1/x_y-2",
        "d/a_m_1-2/x_y",
        "d/a_m_1-2/x_y/superseded/attempt-1-try-1",
    ]
    second = view(agent=0, scenario_name="x/y", attempt=2)
    (place,) = trial_folders(seen, [*trials, second], [second], Path("d"))
    assert place.folder == Path("d/a_m_1/x_y/attempt-2")
