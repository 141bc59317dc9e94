"""Scenarios as objects: built, found by id, run."""

from typing import Unpack

from benchyard.client import scenario_runs, scenarios
from benchyard.client.core import Steps
from benchyard.client.listing import Listed
from benchyard.client.sdk.builder import Recipe
from benchyard.client.sdk.runs import ScenarioRun
from benchyard.client.sdk.walking import everything
from benchyard.client.verbs import Group, S, call
from benchyard.client.wanted import (
    ScenarioChanges,
    ScenarioFields,
    ScenarioPageFields,
    ScenarioRunFields,
    ScenarioRunOptions,
)
from benchyard.models.scenarios import ScenarioView


class Scenario(Group[S]):
    """A problem, the devbox it is worked on in, and how what comes out is graded."""

    def __init__(self, session: S, id: str) -> None:
        super().__init__(session)
        self.id = id

    def __repr__(self) -> str:
        return f"<Scenario {self.id}>"

    @call
    def get_info(self) -> Steps[ScenarioView]:
        """As it is now."""
        return (yield from scenarios.retrieve(self.id))

    @call
    def update(self, **changes: Unpack[ScenarioChanges]) -> Steps[ScenarioView]:
        """Change it: None leaves a field as it is, an empty value clears it."""
        return (yield from scenarios.update(self.id, changes))

    @call
    def run(
        self, *, timeout: float | None = None, **options: Unpack[ScenarioRunOptions]
    ) -> Steps[ScenarioRun[S]]:
        """Start a run and wait until its devbox runs; raises StartFailed if it never will."""
        fields: ScenarioRunFields = {**options, "scenario_id": self.id}
        view = yield from scenario_runs.start_and_await_env_ready(fields, timeout)
        return ScenarioRun(self.session, view.id, view.devbox_id)

    @call
    def run_async(self, **options: Unpack[ScenarioRunOptions]) -> Steps[ScenarioRun[S]]:
        """Start a run and return at once; its devbox comes up meanwhile."""
        view = yield from scenario_runs.start({**options, "scenario_id": self.id})
        return ScenarioRun(self.session, view.id, view.devbox_id)


class ScenarioBuilder(Group[S], Recipe):
    """A scenario that is put together step by step, and made by `push`."""

    def __init__(self, session: S, name: str) -> None:
        Group.__init__(self, session)
        Recipe.__init__(self, name)

    @call
    def push(self, *, update: bool = False) -> Steps[Scenario[S]]:
        """Make the scenario; raises UsageError while something is missing.

        Each call makes one more, as in the original; with `update`, the newest scenario of this name is
        changed instead, where there is one.
        """
        fields = self.build()
        if update:
            query: ScenarioPageFields = {"name": self.name}
            named = yield from everything(Listed("/v1/scenarios", "scenarios", ScenarioView, query))
            known = next((each for each in named if each.name == self.name), None)
            if known is not None:
                changed = yield from scenarios.update(known.id, ScenarioChanges(**fields))
                return Scenario(self.session, changed.id)
        view = yield from scenarios.create(fields)
        return Scenario(self.session, view.id)


class ScenarioOps(Group[S]):
    """Makes and finds scenarios."""

    def builder(self, name: str) -> ScenarioBuilder[S]:
        """Put a new one together."""
        return ScenarioBuilder(self.session, name)

    def from_id(self, scenario_id: str) -> Scenario[S]:
        """The scenario of that id; nothing is asked of the server yet."""
        return Scenario(self.session, scenario_id)

    @call
    def create(self, **fields: Unpack[ScenarioFields]) -> Steps[Scenario[S]]:
        """Make one of these fields."""
        return Scenario(self.session, (yield from scenarios.create(fields)).id)

    @call
    def list(self, **query: Unpack[ScenarioPageFields]) -> Steps[list[Scenario[S]]]:
        """The server's own, newest first; all, or at most `limit`."""
        views = yield from everything(Listed("/v1/scenarios", "scenarios", ScenarioView, query))
        return [Scenario(self.session, view.id) for view in views]
