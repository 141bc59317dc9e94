"""The data folder of a server of an earlier commit, with work in it, is opened and goes on.

`scripts/make-data-folder.sh` made it, by what `earlier_folder/maker.py` does: a job of six trials, a run by
hand, a snapshot and a blueprint, with the images of all of them.
"""

import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchyard.client import Client, Server
from benchyard.errors import NotFound
from benchyard.images.host_image import host_fingerprint, write_host_layer
from benchyard.models.devboxes import DevboxRequest
from benchyard.models.jobs import BenchmarkJobView
from benchyard.models.trials import TrialView
from benchyard.testing.server import RunningServer
from tests.cli.conftest import CommandLine

ARCHIVE = Path(__file__).parent / "earlier_folder" / "data.tar.xz"
PATIENCE_SECONDS = 120.0
AGENTS = ["oracle", "command", "nop"]
SCORES = {
    ("oracle", "greets"): 1.0,
    ("oracle", "counts"): 1.0,
    ("command", "greets"): 1.0,
    ("command", "counts"): 0.0,
    ("nop", "greets"): 0.0,
    ("nop", "counts"): 0.0,
}


def unpacked(folder: Path) -> Path:
    """The data folder, as the earlier server had left it on this machine."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="fully_trusted")
    data = folder / "data"
    root = Path("/")
    for file in (data / "images" / "images").iterdir():
        image = json.loads(file.read_text())
        file.write_text(json.dumps({**image, "fingerprint": host_fingerprint(root)}))
    (layer,) = json.loads((data / "images" / "images" / "host.json").read_text())["layers"]
    write_host_layer(root, folder / "host.tar")
    with tarfile.open(folder / "host.tar") as tar:
        tar.extractall(data / "images" / "layers" / layer, filter="fully_trusted")
    return data


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], RunningServer]]:
    """Starts a server of the present code on a copy of the folder."""
    running: list[RunningServer] = []

    def start() -> RunningServer:
        data = unpacked(tmp_path_factory.mktemp("earlier"))
        # The final states are as old as the archive.
        running.append(RunningServer(data, ["--final-state-days", "100000"]).__enter__())
        return running[-1]

    yield start
    for server in running:
        server.__exit__(None, None, None)


@pytest.fixture(scope="module")
def server(serve: Callable[[], RunningServer]) -> RunningServer:
    """A server of the folder, for tests that remove nothing."""
    return serve()


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    """A client of it, with the key of the earlier server."""
    with Client(Server(server.url, server.key)) as opened:
        yield opened


@pytest.fixture
def command_line(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> CommandLine:
    """The command line of it."""
    monkeypatch.setenv("BENCHYARD_URL", server.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", server.key)
    return CommandLine(monkeypatch, capfd)


def earlier_job(client: Client) -> BenchmarkJobView:
    (listed,) = client.jobs.list()
    assert (listed.name, listed.state.value) == ("earlier job", "completed")
    return client.jobs.get(listed.id)


def scores(job: BenchmarkJobView, trials: list[TrialView]) -> dict[tuple[str, str], float | None]:
    labels = [each.name for each in job.job_spec.agent_configs]
    return {(labels[each.agent], each.scenario_name): each.score for each in trials}


def test_the_archive_is_small_and_has_no_private_keys() -> None:
    assert ARCHIVE.stat().st_size < 200_000
    with tarfile.open(ARCHIVE) as archive:
        names = {Path(each.name).name for each in archive.getmembers()}
    assert not names & {"secret-key", "ssh-host-key", "auth.json", "reserve"}


def test_its_job_is_listed_and_summed_up(client: Client, command_line: CommandLine) -> None:
    job = earlier_job(client)
    assert [each.name for each in job.job_spec.agent_configs] == AGENTS
    assert [each.mean_score for each in job.benchmark_outcomes] == [1.0, 0.5, 0.0]
    assert scores(job, list(client.jobs.trials(job.id))) == SCORES
    assert "earlier job" in command_line.ok("job", "list", "--all")
    said = command_line.ok("job", "summary", "earlier job", "--extended")
    assert ["oracle", "2", "(100%)"] in [line.split()[:3] for line in said.splitlines()]
    assert client.jobs.report(job.id).n_ranked == 2
    assert client.jobs.table(job.id).n == 6
    assert client.jobs.problems(job.id).is_complete
    comparison = client.jobs.compare(f"{job.id}:2", f"{job.id}:0")
    assert comparison.n_shared == 2


def test_its_trials_are_shown_with_what_their_agents_said(
    client: Client, command_line: CommandLine, tmp_path: Path
) -> None:
    job = earlier_job(client)
    (trial,) = [
        each
        for each in client.jobs.trials(job.id)
        if (each.agent, each.scenario_name) == (AGENTS.index("command"), "counts")
    ]
    said = command_line.ok("trial", "show", trial.id)
    assert "half of it was done" in said
    assert "counts" in said
    shown = json.loads(command_line.ok("trial", "show", trial.id, "-o", "json"))["trial"]
    assert (shown["score"], shown["state"]) == (0.0, "completed")
    done = client.jobs.download_logs(job.id, tmp_path)
    assert (len(done.trials), done.incomplete) == (6, [])
    exported = client.jobs.export_harbor(job.id, tmp_path / "harbor")
    assert exported.incomplete == []


def test_its_run_by_hand_is_shown(command_line: CommandLine) -> None:
    listed = json.loads(command_line.ok("run", "list", "-o", "json"))
    assert "earlier run" in json.dumps(listed)
    said = command_line.ok("run", "show", "earlier run")
    assert "completed" in said
    assert "greets" in said


def test_devboxes_start_from_its_snapshot_and_its_blueprint(client: Client) -> None:
    (snapshot,) = client.snapshots.list()
    (blueprint,) = client.blueprints.list()
    for request, command, told in (
        (DevboxRequest(snapshot_id=snapshot.id), "cat ~/link", "snapped\n"),
        (DevboxRequest(blueprint_id=blueprint.id), "cat ~/state ~/notes", "built\nmounted\n"),
        (DevboxRequest(), "test ! -e ~/state && whoami", "user\n"),
    ):
        devbox = client.devboxes.create_and_await_running(request)
        assert client.executions.run(devbox.id, command).stdout == told
        client.devboxes.shutdown(devbox.id)


def test_its_final_states_are_scored_again(client: Client) -> None:
    job = earlier_job(client)
    view = client.jobs.rescore(job.id)
    assert view.rescoring is not None
    assert (len(view.rescoring.trial_ids), view.rescoring.pruned) == (6, [])
    view = client.jobs.wait_for_rescoring(job.id, timeout=PATIENCE_SECONDS)
    trials = list(client.jobs.trials(job.id))
    assert scores(view, trials) == SCORES
    assert [each.rescore_note for each in trials] == [None] * 6
    assert all(each.earlier_scores for each in trials)


def test_a_job_like_it_is_run(client: Client) -> None:
    request = client.jobs.request_like("earlier job").model_copy(update={"name": "later job"})
    made = client.jobs.create(request)
    done = client.jobs.wait(made.id, timeout=PATIENCE_SECONDS)
    assert [each.mean_score for each in done.benchmark_outcomes] == [1.0, 0.5, 0.0]
    client.jobs.delete(made.id)


def test_its_job_and_run_are_deleted_with_their_files(serve: Callable[[], RunningServer]) -> None:
    server = serve()
    with Client(Server(server.url, server.key)) as client:
        job = earlier_job(client)
        trials = list(client.jobs.trials(job.id))
        (run,) = [each for each in client.scenarios.runs.list() if each.name == "earlier run"]
        images = server.data / "images" / "images"
        runs = {run.id, *(each.scenario_run_id for each in trials)}
        assert {each.name.partition("-")[0] for each in images.glob("scr_*")} == runs
        client.jobs.delete(job.id)
        client.scenarios.runs.delete(run.id)
        assert list(client.jobs.list()) == []
        with pytest.raises(NotFound):
            client.jobs.trial(trials[0].id)
        assert list(images.glob("scr_*")) == []
        assert [each.name for each in client.snapshots.list()] == ["earlier snapshot"]
