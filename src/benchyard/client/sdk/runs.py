"""Runs as objects: one scenario in one devbox, and the scenarios of one benchmark."""

from typing import Literal, Unpack

from benchyard.client.listings import all_items
from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import Steps
from benchyard.client.request_fields import RunGatewayFields, StatePageFields
from benchyard.client.resources import runs
from benchyard.client.resources.devboxes import Devbox
from benchyard.client.resources.runs import Place, Trajectory
from benchyard.models.model_access import RunGatewayView
from benchyard.models.runs import BenchmarkRunView, ContractResult, ScenarioRunView


class ScenarioRun(VerbGroup[S]):
    """A run of a scenario, and the devbox it is worked on in."""

    def __init__(self, session: S, id: str, devbox_id: str) -> None:
        super().__init__(session)
        self.id = id
        self.devbox_id = devbox_id
        self.devbox: Devbox[S] = Devbox(session, devbox_id)

    def __repr__(self) -> str:
        return f"<ScenarioRun {self.id}>"

    @call
    def get_info(self) -> Steps[ScenarioRunView]:
        """Return its present state, with its scenario as it was when the run began."""
        return (yield from runs.get_scenario_run(self.id))

    @call
    def await_env_ready(self, timeout: float | None = None) -> Steps[ScenarioRunView]:
        """Wait until its devbox runs; raises StartFailed if it never will."""
        return (yield from runs.await_env_ready(self.id, self.devbox_id, timeout))

    @call
    def score(self) -> Steps[ScenarioRunView]:
        """Begin to score it, and return at once."""
        return (yield from runs.score_run(self.id))

    @call
    def await_scored(self, timeout: float | None = None) -> Steps[ScenarioRunView]:
        """Wait until it is scored; raises Conflict if it cannot be."""
        return (yield from runs.await_scored(self.id, timeout))

    @call
    def score_and_await(self, timeout: float | None = None) -> Steps[ScenarioRunView]:
        """Score it and wait for the result."""
        return (yield from runs.score_and_await(self.id, timeout))

    @call
    def score_and_complete(self, timeout: float | None = None) -> Steps[ScenarioRunView]:
        """Score it, wait for the result, and end it and its devbox."""
        return (yield from runs.score_and_complete(self.id, timeout))

    @call
    def rescore(self, timeout: float | None = None, *, newest: bool = True) -> Steps[ScenarioRunView]:
        """Score it again from its final state and wait; raises Conflict with the reason if that fails.

        Uses the present revision of its scenario, or with `newest=False` the one the run began with.
        """
        return (yield from runs.rescore_and_await(self.id, timeout, newest=newest))

    @call
    def complete(self, timeout: float | None = None) -> Steps[ScenarioRunView]:
        """End it and its devbox."""
        return (yield from runs.complete_scenario_run(self.id, timeout))

    @call
    def cancel(self) -> Steps[ScenarioRunView]:
        """End it and its devbox without a score."""
        return (yield from runs.cancel_scenario_run(self.id))

    @call
    def get_score(self) -> Steps[ContractResult | None]:
        """Return its score and the result of each scorer; None while it has none."""
        return (yield from runs.get_scenario_run(self.id)).scoring_contract_result

    @call
    def download_logs(self, file: Place) -> Steps[int]:
        """Write its logs to a file, as a zip without folders; returns the size."""
        return (yield from runs.download_scenario_run_logs(self.id, file))

    @call
    def open_gateway(self, **fields: Unpack[RunGatewayFields]) -> Steps[RunGatewayView]:
        """Give your own code a token to ask a model; its calls are metered and recorded with the run.

        `url` is for code in the devbox, `outside_url` for code anywhere else.
        """
        return (yield from runs.open_gateway(self.id, fields))

    @call
    def upload_trace(
        self,
        trace: Place | Trajectory,
        name: str | None = None,
        kind: Literal["file", "atif"] | None = None,
    ) -> Steps[ScenarioRunView]:
        """Keep a file, or a trajectory in ATIF as a dictionary, with the run; its logs include it."""
        return (yield from runs.upload_trace(self.id, trace, name, kind))


class BenchmarkRun(VerbGroup[S]):
    """A run of a benchmark, and the scenario runs that were started for it."""

    def __init__(self, session: S, id: str, benchmark_id: str) -> None:
        super().__init__(session)
        self.id = id
        self.benchmark_id = benchmark_id

    def __repr__(self) -> str:
        return f"<BenchmarkRun {self.id}>"

    @call
    def get_info(self) -> Steps[BenchmarkRunView]:
        """Return its present state, with the scenarios that are not started yet."""
        return (yield from runs.get_benchmark_run(self.id))

    @call
    def complete(self, timeout: float | None = None) -> Steps[BenchmarkRunView]:
        """End it: scored scenario runs count, all others are canceled and count 0."""
        return (yield from runs.complete_benchmark_run(self.id, timeout))

    @call
    def cancel(self, timeout: float | None = None) -> Steps[BenchmarkRunView]:
        """End it early and cancel its unfinished scenario runs."""
        return (yield from runs.cancel_benchmark_run(self.id, timeout))

    @call
    def list_scenario_runs(self, **query: Unpack[StatePageFields]) -> Steps[list[ScenarioRun[S]]]:
        """List its scenario runs, newest first; all, or at most `limit`."""
        views = yield from all_items(runs.scenario_runs_of_benchmark_run(self.id, query))
        return [ScenarioRun(self.session, view.id, view.devbox_id) for view in views]

    @call
    def download_logs(self, file: Place) -> Steps[int]:
        """Write the logs of all its scenario runs to a file, as a zip without folders; returns the size."""
        return (yield from runs.download_benchmark_run_logs(self.id, file))
