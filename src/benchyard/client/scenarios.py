"""Scenarios: make, look up, list, change, archive, run."""

from typing import Unpack

from benchyard.client import scenario_runs
from benchyard.client.core import Request, Steps, at, fetch
from benchyard.client.listing import Listed, listing
from benchyard.client.scenario_runs import ScenarioRuns
from benchyard.client.scorers import Scorers
from benchyard.client.verbs import Group, S, call
from benchyard.client.wanted import (
    NamedPageFields,
    ScenarioChanges,
    ScenarioFields,
    ScenarioPageFields,
    ScenarioRunFields,
    body_of,
)
from benchyard.models.removals import DeletedView
from benchyard.models.runs import ScenarioRunView
from benchyard.models.scenarios import ScenarioView

_PATH = "/v1/scenarios"


class Scenarios(Group[S]):
    """The scenarios of a server, their runs, and the custom scorers they name."""

    def __init__(self, session: S) -> None:
        super().__init__(session)
        self.runs: ScenarioRuns[S] = ScenarioRuns(session)
        self.scorers: Scorers[S] = Scorers(session)

    @call
    def create(self, **fields: Unpack[ScenarioFields]) -> Steps[ScenarioView]:
        """Make a scenario; raises UsageError for one that could never be run or scored."""
        return (yield from create(fields))

    @call
    def retrieve(self, id: str) -> Steps[ScenarioView]:
        """Look one up, an archived one too; raises NotFound."""
        return (yield from retrieve(id))

    get = retrieve

    @call
    def update(self, id: str, **changes: Unpack[ScenarioChanges]) -> Steps[ScenarioView]:
        """Change one: None leaves a field as it is, an empty value clears it."""
        return (yield from update(id, changes))

    @listing
    def list(self, **query: Unpack[ScenarioPageFields]) -> Listed[ScenarioView]:
        """The server's own, newest first; with `benchmark_id` those of a benchmark."""
        return Listed(_PATH, "scenarios", ScenarioView, query)

    @listing
    def list_public(self, **query: Unpack[NamedPageFields]) -> Listed[ScenarioView]:
        """The public ones, newest first."""
        return Listed(f"{_PATH}/list_public", "scenarios", ScenarioView, query)

    @call
    def delete(self, id: str) -> Steps[DeletedView]:
        """Delete one that no benchmark has; runs keep the revision they began with."""
        return (yield from fetch(Request("POST", at(_PATH + "/{}/delete", id)), DeletedView))

    @call
    def archive(self, id: str) -> Steps[ScenarioView]:
        """Hide one from lists; it cannot be run or changed until it is unarchived."""
        return (yield from fetch(Request("POST", at(_PATH + "/{}/archive", id)), ScenarioView))

    @call
    def unarchive(self, id: str) -> Steps[ScenarioView]:
        """Show an archived one again."""
        return (yield from fetch(Request("POST", at(_PATH + "/{}/unarchive", id)), ScenarioView))

    @call
    def start_run(self, **fields: Unpack[ScenarioRunFields]) -> Steps[ScenarioRunView]:
        """Start a run and return at once; its devbox comes up meanwhile."""
        return (yield from scenario_runs.start(fields))

    @call
    def start_run_and_await_env_ready(
        self, *, timeout: float | None = None, **fields: Unpack[ScenarioRunFields]
    ) -> Steps[ScenarioRunView]:
        """Start a run and wait until its devbox runs; raises StartFailed if it never will."""
        return (yield from scenario_runs.start_and_await_env_ready(fields, timeout))


def create(fields: ScenarioFields) -> Steps[ScenarioView]:
    """Make a scenario."""
    return (yield from fetch(Request("POST", _PATH, json=body_of(fields)), ScenarioView))


def retrieve(id: str) -> Steps[ScenarioView]:
    """Look a scenario up."""
    return (yield from fetch(Request("GET", at(_PATH + "/{}", id)), ScenarioView))


def update(id: str, changes: ScenarioChanges) -> Steps[ScenarioView]:
    """Change a scenario."""
    return (yield from fetch(Request("POST", at(_PATH + "/{}", id), json=body_of(changes)), ScenarioView))
