"""`imports`: how fast a set is imported, how soon a large job works, and which layers are built once."""

import json
import resource
import time
from pathlib import Path

from benchyard.client import Client, Server
from benchyard.client.benchmark_files import benchmark_import
from benchyard.client.benchmark_files.benchmark_import import BenchmarkImport
from benchyard.models.trials import TrialState
from benchyard.testing.server import RunningServer
from perf.options import Options
from perf.page import heading, table
from tests.benchmarks.tasks import Task, TaskWriter, small_base

_ITEMS = 500
_LARGE = 2_000
_BUILDS = 8
_MB = 1024**2
_AT_WORK = (TrialState.SETTING_UP, TrialState.RUNNING, TrialState.SCORING, TrialState.COMPLETED)


def measure(folder: Path, options: Options) -> list[str]:
    """A set of 500, a job on 2,000 scenarios, and environments that share what they start with."""
    with RunningServer(folder / "server", ["--driver", "pretend"]) as server:
        rows = [*_import(server, folder), *_job_start(server)]
    with RunningServer(folder / "builder") as server:
        rows += _builds(server, folder)
    return [heading("Both sides of an import are on this machine."), "", *table(("", "measured"), rows)]


def _import(server: RunningServer, folder: Path) -> list[tuple[str, str]]:
    data = folder / "problems.jsonl"
    rows = (
        {"id": f"aime24-{at}", "year": 2024, "problem": f"What is {at}?" * 40, "answer": at % 1000}
        for at in range(_ITEMS)
    )
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Client(Server(server.url, server.key)) as client:
        begin = time.perf_counter()
        benchmark_import.import_benchmark(client, BenchmarkImport("aime", local=data))
        first = time.perf_counter() - begin
        begin = time.perf_counter()
        benchmark_import.import_benchmark(client, BenchmarkImport("aime", local=data))
        again = time.perf_counter() - begin
    memory = _resident(server)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MB
    return [
        (f"import of {_ITEMS} scenarios", f"{_ITEMS / first:,.0f} scenarios per second"),
        ("the same again, which changes nothing", f"{_ITEMS / again:,.0f} scenarios per second"),
        ("memory of the server after it; of the importer at most", f"{memory:.0f} MB; {own:.0f} MB"),
    ]


def _job_start(server: RunningServer) -> list[tuple[str, str]]:
    """Until the first of 2,000 trials works, from when the job was asked for."""
    with Client(Server(server.url, server.key)) as client:
        ids = [each.id for each in client.scenarios.list(search="aime/", limit=_ITEMS)]
        contract = client.scenarios.retrieve(ids[0])
        more = [
            client.scenarios.create(
                name=f"copy/{at}",
                input_context=contract.input_context,
                scoring_contract=contract.scoring_contract,
                scoring_isolation="answer",
                answer_paths=["answer.txt"],
            ).id
            for at in range(_LARGE - len(ids))
        ]
        made = client.benchmarks.create(name="large", scenario_ids=[*ids, *more])
        spec = {"type": "benchmark", "benchmark_id": made.id, "agent_configs": [{"name": "nop"}]}
        begin = time.perf_counter()
        job = client.jobs.create({"spec": spec})
        asked = time.perf_counter() - begin
        begun, works = (at - begin for at in _first(client, job.id))
        client.jobs.cancel(job.id)
    return [
        (f"a job on {_LARGE:,} scenarios: answered", f"{asked * 1000:.0f} ms"),
        ("until its first trial is begun", f"{begun * 1000:.0f} ms"),
        ("until a trial has its devbox, and its agent's turn has come", f"{works * 1000:.0f} ms"),
    ]


def _first(client: Client, job_id: str) -> tuple[float, float]:
    """When the first trial was begun, and when one was past its provisioning, as the job's events tell it."""
    begun = None
    for event in client.jobs.events(job_id):
        if event.trial is None or event.trial.state is TrialState.QUEUED:
            continue
        now = time.perf_counter()
        begun = begun or now
        if event.trial.state in _AT_WORK:
            return begun, now
        assert event.trial.state is TrialState.PROVISIONING, event.trial
    raise AssertionError("the job ended before a trial was at work")


def _builds(server: RunningServer, folder: Path) -> list[tuple[str, str]]:
    """Environments of tasks that begin alike: steps that were built for one are not built again."""
    (folder / "base").mkdir()
    writer = TaskWriter(folder / "tasks", small_base(server, folder / "base"))
    shared = "RUN echo one > /one\nRUN echo two > /two\n"
    for at in range(_BUILDS):
        writer.write(f"task-{at}", Task(dockerfile=f"{shared}RUN echo {at} > /own\n"))
    with Client(Server(server.url, server.key)) as client:
        made = benchmark_import.import_benchmark(client, BenchmarkImport(str(writer.folder)))
        spec = {
            "type": "benchmark",
            "benchmark_id": made.benchmark.id,
            "agent_configs": [{"name": "oracle"}],
            "orchestrator_config": {"n_concurrent_trials": _BUILDS},
        }
        begin = time.perf_counter()
        ended = client.jobs.wait(client.jobs.create({"spec": spec}).id, timeout=1800)
        seconds = time.perf_counter() - begin
        names = {each.id: each for each in client.blueprints.list() if each.name.startswith("environment-")}
        cached = sum("cache" in line.message.lower() for id in names for line in client.blueprints.logs(id))
    outcome = (ended.benchmark_outcomes or [])[0]
    assert outcome.average_score == 1.0, outcome
    return [
        (f"{_BUILDS} environments that share three of four steps, built and graded", f"{seconds:.1f} s"),
        ("steps taken from the cache, of those that could be", f"{cached} of {3 * (_BUILDS - 1)}"),
    ]


def _resident(server: RunningServer) -> float:
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024
