"""`job report` and `job export --csv`, and the same from Python, on stored jobs with hostile names."""

import csv
import importlib
import io
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars
import pytest

from benchyard.client import Client, Server
from benchyard.errors import UsageError
from benchyard.testing.server import RunningServer
from tests.api.test_comparisons import SCENARIOS
from tests.api.test_job_reports import HOSTILE, reports
from tests.cli.conftest import CommandLine

__all__ = ["reports"]


@pytest.fixture
def told(
    reports: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> CommandLine:
    """The command line of a server with stored jobs."""
    monkeypatch.setenv("BENCHYARD_URL", reports.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", reports.key)
    return CommandLine(monkeypatch, capfd)


def test_a_report_tells_the_figures_and_what_they_rest_on(told: CommandLine) -> None:
    text = told.ok("job", "report", "seen")
    assert "not apart: good:m, middle:m" in text
    assert "PASS^K: ALL OF K" in text
    bars = [line for line in text.splitlines() if line.endswith(" 1") and " 0 " in line]
    assert [line.index("o", 12) for line in bars] == sorted(
        (line.index("o", 12) for line in bars), reverse=True
    )
    assert "flaky: passed by some attempts of an agent and failed by others" in text
    assert "differences of 0." in text
    assert json.loads(told.ok("job", "report", "seen", "-o", "json"))["n_ranked"] == SCENARIOS
    assert "! nothing was scored" in told.ok("job", "report", "empty")
    assert told("job", "report", "no-such-job").status == 4


def test_a_report_is_markdown_whatever_the_names(told: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "report.md"
    assert told.ok("job", "report", "seen", "--md", str(file)).strip() == str(file)
    assert file.read_text() == told.ok("job", "report", "seen", "--md", "-")
    rows = [line for line in file.read_text().splitlines() if line.startswith("| good:m")]
    assert rows[0].count(" | ") == 7
    assert "<script>" not in told.ok("job", "report", "odd", "--md", "-")


def test_trials_are_exported_as_csv_that_no_spreadsheet_runs(told: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "trials.csv"
    told.ok("job", "export", "odd", "--csv", str(file))
    with file.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == 2 * SCENARIOS
    assert rows[0]["scenario_name"] == f"'{HOSTILE}"
    assert {row["outcome"] for row in rows} == {"passed", "not_passed"}
    printed = told.ok("job", "export", "odd", "--csv", "-", "--columns", "score,agent_label")
    assert next(csv.reader(io.StringIO(printed))) == ["score", "agent_label"]


def test_trials_are_exported_as_parquet(told: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "trials.parquet"
    told.ok("job", "export", "odd", "--parquet", str(file))
    # It has no types.
    table: Any = importlib.import_module("pyarrow.parquet").read_table(file)
    assert table.num_rows == 2 * SCENARIOS
    assert table["scenario_name"].to_pylist()[0] == HOSTILE
    assert table["failure"].null_count == table.num_rows


def test_what_cannot_be_exported_is_said_and_leaves_nothing(told: CommandLine, tmp_path: Path) -> None:
    for arguments, words in (
        ([], "name a folder"),
        ([str(tmp_path), "--csv", "x"], "either a folder"),
        (["--csv", str(tmp_path / "no" / "x")], "there is no folder"),
        (["--csv", str(tmp_path / "x"), "--columns", "nonsense"], "no column 'nonsense'"),
    ):
        ended = told("job", "export", "odd", *arguments)
        assert (ended.status, words in ended.err) == (2, True), ended.err
    assert list(tmp_path.iterdir()) == []


class _Tags(HTMLParser):
    """The tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.add(tag)


def test_reports_and_frames_in_a_notebook(reports: RunningServer) -> None:
    with Client(Server(reports.url, reports.key)) as client:
        page = client.jobs.report("bmj_seen")._repr_html_()
        tags = _Tags()
        tags.feed(page)
        assert {"svg", "circle", "table"} <= tags.found
        assert "script" not in tags.found
        frame = client.jobs.frame("bmj_odd", "polars")
        assert isinstance(frame, polars.DataFrame)
        assert frame.shape[0] == 2 * SCENARIOS
        assert frame.filter(polars.col("scenario_name") == HOSTILE).shape[0] == 1
        assert frame["score"].mean() == frame["counted_score"].mean()
        # Polars is what is installed here.
        assert client.jobs.frame("bmj_odd", columns=["score"]).columns == ["score"]
        with pytest.raises(UsageError, match="pip install pandas"):
            client.jobs.frame("bmj_odd", "pandas")
        with pytest.raises(UsageError, match="pandas, polars"):
            client.jobs.frame("bmj_odd", "excel")  # type: ignore[arg-type]
        assert client.benchmark_runs.report("bmr_1").agents[0].n_scenarios == 2
