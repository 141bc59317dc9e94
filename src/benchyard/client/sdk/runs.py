"""Runs as objects: one scenario in one devbox, and the scenarios of one benchmark."""

from typing import Unpack

from benchyard.client.methods import NounObject, S, bound, call
from benchyard.client.operations import Steps
from benchyard.client.request_fields import StatePageFields
from benchyard.client.resources.devboxes import Devbox
from benchyard.client.resources.runs import BenchmarkRuns, Place, ScenarioRuns
from benchyard.models.runs import ContractResult, ScenarioRunView


class ScenarioRun(NounObject[S]):
    """A run of a scenario, and the devbox it is worked on in."""

    def __init__(self, session: S, id: str, devbox_id: str) -> None:
        super().__init__(session, id)
        self.devbox_id = devbox_id
        self.devbox: Devbox[S] = Devbox(session, devbox_id)

    get_info = bound(ScenarioRuns.retrieve)
    score = bound(ScenarioRuns.score)
    await_scored = bound(ScenarioRuns.await_scored)
    score_and_await = bound(ScenarioRuns.score_and_await)
    score_and_complete = bound(ScenarioRuns.score_and_complete)
    rescore = bound(ScenarioRuns.rescore_and_await)
    complete = bound(ScenarioRuns.complete)
    cancel = bound(ScenarioRuns.cancel)
    annotate = bound(ScenarioRuns.annotate)
    label = bound(ScenarioRuns.label)
    open_gateway = bound(ScenarioRuns.open_gateway)
    upload_trace = bound(ScenarioRuns.upload_trace)
    files = bound(ScenarioRuns.files)
    diff = bound(ScenarioRuns.diff)
    read_file = bound(ScenarioRuns.read_file)

    @call
    def await_env_ready(self, timeout: float | None = None) -> Steps[ScenarioRunView]:
        """Wait until its devbox runs; raises StartFailed if it never will."""
        group = ScenarioRuns(self.session)
        return (yield from group.await_env_ready.steps(self.id, self.devbox_id, timeout))

    @call
    def get_score(self) -> Steps[ContractResult | None]:
        """Return its score and the result of each scorer; None while it has none."""
        return (yield from self.get_info.steps()).scoring_contract_result

    @call
    def download_logs(self, file: Place) -> Steps[int]:
        """Write its logs to a file, as a zip without folders; returns the size."""
        return (yield from ScenarioRuns(self.session).download_logs.steps(self.id, file))


class BenchmarkRun(NounObject[S]):
    """A run of a benchmark, and the scenario runs that were started for it."""

    def __init__(self, session: S, id: str, benchmark_id: str) -> None:
        super().__init__(session, id)
        self.benchmark_id = benchmark_id

    get_info = bound(BenchmarkRuns.retrieve)
    complete = bound(BenchmarkRuns.complete)
    cancel = bound(BenchmarkRuns.cancel)
    report = bound(BenchmarkRuns.report)
    problems = bound(BenchmarkRuns.problems)
    table = bound(BenchmarkRuns.table)
    frame = bound(BenchmarkRuns.frame)
    annotate = bound(BenchmarkRuns.annotate)

    @call
    def list_scenario_runs(self, **query: Unpack[StatePageFields]) -> Steps[list[ScenarioRun[S]]]:
        """List its scenario runs, newest first; all, or at most `limit`."""
        views = yield from BenchmarkRuns(self.session).list_scenario_runs.steps(self.id, **query)
        return [ScenarioRun(self.session, view.id, view.devbox_id) for view in views]

    @call
    def download_logs(self, file: Place) -> Steps[int]:
        """Write the logs of all its scenario runs to a file, as a zip without folders; returns the size."""
        return (yield from BenchmarkRuns(self.session).download_logs.steps(self.id, file))
