"""What the commands that wait for a job end with, row by row of the table in the help and in the docs."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchyard.cli.job.gates import STATUSES
from benchyard.models.jobs import BenchmarkJobView, JobState
from benchyard.models.trials import Trial
from benchyard.reports.outcomes import job_view
from tests.cli.conftest import CommandLine
from tests.client.stub import Answer, Asked, error, stub
from tests.reports.scenes import job, trial

PAGE = Path(__file__).parents[2] / "docs/guides/jobs.md"
RUN = ("run", "--agent", "agent-0", "--scenarios", "scn_0", "--watch")
WATCH = ("watch", "bmj_1")
SUMMARY = ("summary", "bmj_1")
RETRY = ("retry", "bmj_1", "--watch")

Serve = Callable[[BenchmarkJobView], CommandLine]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Serve]:
    """The command line of a server that has one job, which has ended like this."""
    views: list[BenchmarkJobView] = []

    def answer(asked: Asked) -> Answer:
        if asked.path == "/v1/benchmark_jobs/plan" or asked.path.endswith("/nothing"):
            return error(404, "not_found")
        if asked.path == "/v1/benchmark_jobs" and asked.method == "GET":
            return Answer({"jobs": [], "has_more": False})
        if asked.path.startswith("/v1/benchmarks"):
            return Answer({"benchmarks": [], "has_more": False})
        return Answer(views[-1].model_dump(mode="json"))

    with stub(answer) as server:
        monkeypatch.setenv("BENCHYARD_URL", server.url)
        monkeypatch.setenv("BENCHYARD_API_KEY", "test-key")

        def command_line(view: BenchmarkJobView) -> CommandLine:
            views.append(view)
            return CommandLine(monkeypatch, capfd)

        yield command_line


def ended(*trials: Trial, state: JobState = JobState.COMPLETED, agents: int = 1) -> BenchmarkJobView:
    return job_view(job(agents, len(trials) // agents, state=state), list(trials), with_scenarios=True)


GOOD = (trial(1.0), trial(1.0, scenario=1))
PARTLY = (trial(1.0), trial(failure="scorer", scenario=1))
ONE_OF_TWO = (trial(1.0), trial(failure="scorer", agent=1))
SUSPECT = (trial(1.0, suspicions=["scorers opened what was changed"]),)


@pytest.mark.parametrize(
    ("words", "view", "status"),
    [
        *((words, ended(*GOOD), 0) for words in (RUN, WATCH, SUMMARY, RETRY)),
        *(((*words, "--fail-under", "1"), ended(*GOOD), 0) for words in (RUN, WATCH, SUMMARY)),
        *((words, ended(*GOOD, state=JobState.CANCELLED), 1) for words in (RUN, WATCH, RETRY)),
        *((words, ended(trial(failure="scorer")), 1) for words in (RUN, WATCH, RETRY)),
        *((words, ended(*ONE_OF_TWO, agents=2), 1) for words in (RUN, WATCH)),
        *((words, ended(*PARTLY), 0) for words in (RUN, WATCH, SUMMARY, RETRY)),
        (SUMMARY, ended(*GOOD, state=JobState.CANCELLED), 0),
        *(((*words, "--fail-under", "2"), ended(*GOOD), 2) for words in (RUN, WATCH, SUMMARY)),
        ((*RETRY, "--only", "nothing"), ended(*GOOD), 2),
        *(((verb, "nothing"), ended(*GOOD), 4) for verb in ("watch", "summary", "retry")),
        (("run", "--agent", "nop", "--benchmark", "nothing"), ended(*GOOD), 4),
        *(((*words, "--fail-under", "0.5"), ended(trial(0.0)), 20) for words in (RUN, WATCH, SUMMARY)),
        *(
            ((*words, "--fail-under", "0.5"), ended(trial(failure="scorer")), 20)
            for words in (RUN, WATCH, SUMMARY)
        ),
        *(((*words, "--suspect", "fail"), ended(*SUSPECT), 21) for words in (WATCH, SUMMARY)),
        *(((*words, "--fail-under", "1"), ended(*PARTLY), 22) for words in (RUN, WATCH, SUMMARY)),
        *(
            ((*words, "--fail-under", "1", "--max-unscored", "50%"), ended(*PARTLY), 0)
            for words in (RUN, WATCH, SUMMARY)
        ),
    ],
)
def test_every_row_of_the_table_holds(
    serve: Serve, words: tuple[str, ...], view: BenchmarkJobView, status: int
) -> None:
    found = serve(view)("job", *words)
    assert found.status == status, found.err


def test_conflict_with_the_jobs_state_ends_with_5(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def answer(asked: Asked) -> Answer:
        is_retry = asked.path.endswith("/retry")
        return error(409, "conflict") if is_retry else Answer(ended(*GOOD).model_dump(mode="json"))

    with stub(answer) as server:
        monkeypatch.setenv("BENCHYARD_URL", server.url)
        monkeypatch.setenv("BENCHYARD_API_KEY", "test-key")
        assert CommandLine(monkeypatch, capfd)("job", *RETRY).status == 5


def test_the_table_of_the_page_is_the_one_of_the_help(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    benchyard = CommandLine(monkeypatch, capfd)
    page = PAGE.read_text()
    table = page[page.index("| exit status |") :].split("\n\n")[0].splitlines()
    columns = [cell.strip() for cell in table[0].strip("|").split("|")][1:]
    rows: dict[str, list[Any]] = {}
    for line in table[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[cells[0]] = cells[1:]
    assert list(rows) == [str(status) for status in sorted(STATUSES)]
    for verb in ("run", "watch", "summary", "retry", "resume"):
        told = benchyard.ok("job", verb, "--help").partition("Exit status")[2]
        shown = re.findall(r"^ {4}(\d+) ", told, re.MULTILINE)
        (column,) = [at for at, title in enumerate(columns) if f"`job {verb}`" in title]
        assert shown == [status for status, cells in rows.items() if cells[column]], verb
