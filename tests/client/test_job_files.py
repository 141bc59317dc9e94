"""Files of jobs, written by both clients: logs, results in Harbor's layout, tables."""

import asyncio
import csv
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import assert_type

import pytest

from benchyard.client import AsyncClient, Client, Server
from benchyard.client.job_files.progress import OnTrial, TrialProgress
from benchyard.client.job_files.results import JobFolder, TrialFolder
from benchyard.errors import NotFound, StillWaiting, UsageError
from benchyard.models.jobs import BenchmarkJobView, JobRequest
from benchyard.models.reports.job_report import TableView
from benchyard.testing.server import RunningServer
from tests.client.scenes import PATIENCE_SECONDS, unique
from tests.client.stub import Answer, Asked, talking
from tests.client.test_jobs import job, trial

FILE = """
name: {name}
agents: [oracle, nop]
benchmark: quickstart
limit: 1
"""


@pytest.fixture(scope="session")
def scored(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> BenchmarkJobView:
    """A job of two trials that is done."""
    file = tmp_path_factory.mktemp("job") / "job.yaml"
    file.write_text(FILE.format(name=unique("scored")))
    with Client(Server(server.url, server.key)) as client:
        made = client.jobs.create_from_file(file, environ={})
        return client.jobs.wait(made.id, timeout=PATIENCE_SECONDS)


class Seen(TrialProgress):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.total = 0
        self.told: list[TrialFolder] = []

    def say(self, text: str) -> None:
        self.sentences.append(text)

    @contextmanager
    def trials(self, total: int, folder: Path) -> Iterator[OnTrial]:
        self.total = total
        yield self.told.append


def test_logs_are_written_below_a_folder(client: Client, scored: BenchmarkJobView, tmp_path: Path) -> None:
    progress = Seen()
    done = assert_type(client.jobs.download_logs(scored.name, tmp_path, progress=progress), JobFolder)
    assert (done.job_id, done.folder, done.incomplete) == (scored.id, tmp_path, [])
    assert (progress.total, progress.sentences) == (2, [])
    assert sorted(map(str, (each.folder for each in progress.told))) == sorted(
        str(each.folder) for each in done.trials
    )
    assert {each.folder.parent.name for each in done.trials} == {"oracle", "nop"}
    for each in done.trials:
        results = json.loads((each.folder / "results.json").read_text())
        assert (results["id"], results["score"]) == (
            each.trial_id,
            float(each.folder.parent.name == "oracle"),
        )
        assert (each.folder / "run.json").is_file()
        assert list(each.folder.glob("scorer-*.log"))


def test_logs_of_a_part_of_a_job(
    client: Client, scored: BenchmarkJobView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = scored.benchmark_outcomes[1].benchmark_run_id
    (only,) = client.jobs.download_logs(scored.id, run=run).trials
    assert only.folder.parts[:2] == (f"job-logs-{scored.id}", "nop")
    scenario = scored.benchmark_outcomes[0].scenario_outcomes[0].scenario_name
    assert len(client.jobs.download_logs(scored.id, "of-one", scenario=scenario).trials) == 2
    with pytest.raises(NotFound, match="no trial of this job matches"):
        client.jobs.download_logs(scored.id, "none", run="bmr_other")
    with pytest.raises(NotFound, match="no scenario of job"):
        client.jobs.download_logs(scored.id, "none", scenario="other")
    with pytest.raises(NotFound, match="no job has the id or name"):
        client.jobs.download_logs("no-such-job", "none")
    assert not Path("none").exists()


def test_results_are_written_as_harbor_does(client: Client, scored: BenchmarkJobView, tmp_path: Path) -> None:
    done = assert_type(client.jobs.export_harbor(scored.name, str(tmp_path)), JobFolder)
    assert (done.folder, done.incomplete) == (tmp_path / scored.name, [])
    stats = json.loads((done.folder / "result.json").read_text())["stats"]
    assert stats["n_completed_trials"] == 2
    rewards = [json.loads((each.folder / "verifier/reward.json").read_text()) for each in done.trials]
    assert sorted(each["reward"] for each in rewards) == [0.0, 1.0]
    for each in done.trials:
        assert each.folder.parent == done.folder
        assert json.loads((each.folder / "result.json").read_text())["trial_uri"].endswith(each.trial_id)
        assert (each.folder / "benchyard-run.json").is_file()
    with pytest.raises(UsageError, match="not empty"):
        client.jobs.export_harbor(scored.id, tmp_path)
    client.jobs.export_harbor(scored.id, tmp_path, force=True)
    assert not list(tmp_path.rglob(".part-*"))


def test_trials_are_written_as_a_table(client: Client, scored: BenchmarkJobView, tmp_path: Path) -> None:
    held = io.StringIO()
    columns = ["agent_label", "score"]
    table = assert_type(client.jobs.export_table(scored.name, csv=held, columns=columns), TableView)
    assert table.n == 2
    assert list(csv.reader(io.StringIO(held.getvalue()))) == [columns, ["oracle", "1.0"], ["nop", "0.0"]]
    client.jobs.export_table(
        scored.id, csv=tmp_path / "a.csv", parquet=str(tmp_path / "a.parquet"), columns=columns
    )
    assert (tmp_path / "a.csv").read_bytes().decode() == held.getvalue()
    assert (tmp_path / "a.parquet").read_bytes()[:4] == b"PAR1"
    with pytest.raises(UsageError, match="there is no folder"):
        client.jobs.export_table(scored.id, csv=tmp_path / "no" / "a.csv")


def test_a_request_is_made_like_another_job(client: Client, scored: BenchmarkJobView) -> None:
    told: list[str] = []
    request = assert_type(client.jobs.request_like(scored.name, told.append), JobRequest)
    assert (request.name, told) == (scored.name, [])
    plan = client.jobs.plan(request)
    assert (plan.n_trials, [each.label for each in plan.agents]) == (2, ["oracle", "nop"])


def test_trials_are_scored_again_and_waited_for(client: Client, scored: BenchmarkJobView) -> None:
    client.jobs.rescore(scored.id)
    view = client.jobs.wait_for_rescoring(scored.id, timeout=PATIENCE_SECONDS)
    assert view.rescoring_state == "completed"
    assert [each.mean_score for each in view.benchmark_outcomes] == [1.0, 0.0]


def test_a_rescoring_that_takes_too_long_is_waited_for_no_more() -> None:
    with (
        talking(lambda asked: Answer(job(rescoring_state="running"))) as (client, server),
        pytest.raises(StillWaiting, match="bmj_1 are still being scored"),
    ):
        client.jobs.wait_for_rescoring("bmj_1", timeout=0.2)
    assert len(server.asked) > 1


def broken(asked: Asked) -> Answer:
    """Answer as a server with a job of two trials, the logs of one of which are no archive."""
    if asked.path.endswith("/trials"):
        trials = [{**trial("trl_1"), "scenario_run_id": "scr_1"}, trial("trl_2")]
        return Answer({"trials": trials, "has_more": False})
    return Answer(b"no archive" if asked.path.endswith("/download_logs") else job())


@pytest.mark.parametrize("verb", ["download_logs", "export_harbor"])
def test_logs_that_cannot_be_read_are_told_and_the_others_are_written(tmp_path: Path, verb: str) -> None:
    progress = Seen()
    with talking(broken) as (client, _):
        done: JobFolder = getattr(client.jobs, verb)("bmj_1", tmp_path, progress=progress)
    (bad,) = done.incomplete
    assert bad.trial_id == "trl_1"
    assert "not a zip file" in str(bad.problem)
    assert {each.trial_id for each in progress.told} == {"trl_1", "trl_2"}
    (good,) = [each for each in done.trials if each.problem is None]
    assert list(good.folder.glob("result*.json"))


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "nop").write_text("a file")
    with talking(broken) as (client, _):
        done = client.jobs.download_logs("bmj_1", tmp_path)
    assert len(done.incomplete) == 2
    assert all("nop" in str(each.problem) for each in done.incomplete)


def test_several_jobs_of_a_name_are_told(tmp_path: Path) -> None:
    def listed(asked: Asked) -> Answer:
        if asked.path.endswith("/same"):
            return Answer({"code": "not_found", "message": "no job"}, status=404)
        if asked.path.endswith("/benchmark_jobs"):
            return Answer({"jobs": [job(id="bmj_1"), job(id="bmj_0")], "has_more": False})
        return broken(asked)

    progress = Seen()
    with talking(listed) as (client, _):
        assert client.jobs.download_logs("same", tmp_path, progress=progress).job_id == "bmj_1"
    (said,) = progress.sentences
    assert "the newest is taken, bmj_1" in said


def test_an_async_client_goes_on_while_logs_are_fetched(
    server: RunningServer, scored: BenchmarkJobView, tmp_path: Path
) -> None:
    async def fetch() -> tuple[JobFolder, int]:
        turns = 0
        async with AsyncClient(Server(server.url, server.key)) as client:
            fetched = asyncio.create_task(client.jobs.download_logs(scored.id, tmp_path))
            while not fetched.done():
                turns += 1
                await asyncio.sleep(0)
            return assert_type(await fetched, JobFolder), turns

    done, turns = asyncio.run(fetch())
    assert len(done.trials) == 2
    assert turns > 10
