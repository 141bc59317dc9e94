"""Scenarios and custom scorers: make, look up, list, change, archive, run, try."""

from typing import Any, Unpack

from benchyard.client.listings import ListingSpec, listing
from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import TRANSFER_TIMEOUT, Request, Steps, at, fetch
from benchyard.client.request_fields import (
    Loose,
    NamedPageFields,
    PageFields,
    ScenarioChanges,
    ScenarioFields,
    ScenarioPageFields,
    ScenarioRunFields,
    body_of,
)
from benchyard.client.resources.runs import ScenarioRuns
from benchyard.models.removals import DeletedView
from benchyard.models.reports.trends import ScenarioHistoryView
from benchyard.models.runs import ScenarioRunView
from benchyard.models.scenarios import (
    CustomScorerView,
    ScenarioEnvironment,
    ScenarioView,
    ScorerValidationView,
)

_SCORERS_PATH = "/v1/scenarios/scorers"


class Scorers(VerbGroup[S]):
    """The custom scorers of a server: bash scripts that scenarios name by their type."""

    @call
    def create(self, type: str, bash_script: str) -> Steps[CustomScorerView]:
        """Register a bash script as a type of scorer; raises UsageError if the type is taken."""
        body = {"type": type, "bash_script": bash_script}
        return (yield from fetch(Request("POST", _SCORERS_PATH, json=body), CustomScorerView))

    @call
    def retrieve(self, id: str) -> Steps[CustomScorerView]:
        """Look a custom scorer up; raises NotFound."""
        return (yield from fetch(Request("GET", at(_SCORERS_PATH + "/{}", id)), CustomScorerView))

    get = retrieve

    @call
    def update(self, id: str, type: str, bash_script: str) -> Steps[CustomScorerView]:
        """Change a custom scorer's type and script; scored runs keep their scores."""
        body = {"type": type, "bash_script": bash_script}
        request = Request("POST", at(_SCORERS_PATH + "/{}", id), json=body)
        return (yield from fetch(request, CustomScorerView))

    @listing
    def list(self, **query: Unpack[PageFields]) -> ListingSpec[CustomScorerView]:
        """List custom scorers, newest first."""
        return ListingSpec(_SCORERS_PATH, "scorers", CustomScorerView, query)

    @call
    def validate(
        self,
        id: str,
        scoring_context: Any,
        environment_parameters: ScenarioEnvironment | Loose | None = None,
    ) -> Steps[ScorerValidationView]:
        """Try a custom scorer with this context in a devbox that is made for it."""
        fields = {"scoring_context": scoring_context, "environment_parameters": environment_parameters}
        path = at(_SCORERS_PATH + "/{}/validate", id)
        request = Request("POST", path, json=body_of(fields), timeout=TRANSFER_TIMEOUT)
        return (yield from fetch(request, ScorerValidationView))


_PATH = "/v1/scenarios"


class Scenarios(VerbGroup[S]):
    """The scenarios of a server, their runs, and the custom scorers they name."""

    def __init__(self, session: S) -> None:
        super().__init__(session)
        self.runs: ScenarioRuns[S] = ScenarioRuns(session)
        self.scorers: Scorers[S] = Scorers(session)

    @call
    def create(self, **fields: Unpack[ScenarioFields]) -> Steps[ScenarioView]:
        """Make a scenario; raises UsageError for one that could never be run or scored."""
        return (yield from fetch(Request("POST", _PATH, json=body_of(fields)), ScenarioView))

    @call
    def retrieve(self, id: str) -> Steps[ScenarioView]:
        """Look a scenario up, an archived one too; raises NotFound."""
        return (yield from fetch(Request("GET", at(_PATH + "/{}", id)), ScenarioView))

    get = retrieve

    @call
    def update(self, id: str, **changes: Unpack[ScenarioChanges]) -> Steps[ScenarioView]:
        """Change a scenario: None leaves a field as it is, an empty value clears it."""
        request = Request("POST", at(_PATH + "/{}", id), json=body_of(changes))
        return (yield from fetch(request, ScenarioView))

    @call
    def history(self, id: str) -> Steps[ScenarioHistoryView]:
        """Return its results over all jobs and revisions, how flaky it is, and the noise of its scorers."""
        request = Request("GET", at("/v1/scenarios/{}/history", id), timeout=TRANSFER_TIMEOUT)
        return (yield from fetch(request, ScenarioHistoryView))

    @listing
    def list(self, **query: Unpack[ScenarioPageFields]) -> ListingSpec[ScenarioView]:
        """List the server's own scenarios, newest first; with `benchmark_id` those of a benchmark."""
        return ListingSpec(_PATH, "scenarios", ScenarioView, query)

    @listing
    def list_public(self, **query: Unpack[NamedPageFields]) -> ListingSpec[ScenarioView]:
        """List the public scenarios, newest first."""
        return ListingSpec(f"{_PATH}/list_public", "scenarios", ScenarioView, query)

    @call
    def delete(self, id: str) -> Steps[DeletedView]:
        """Delete a scenario that belongs to no benchmark; runs keep the revision they began with."""
        return (yield from fetch(Request("POST", at(_PATH + "/{}/delete", id)), DeletedView))

    @call
    def archive(self, id: str) -> Steps[ScenarioView]:
        """Hide a scenario from lists; it cannot be run or changed until it is unarchived."""
        return (yield from fetch(Request("POST", at(_PATH + "/{}/archive", id)), ScenarioView))

    @call
    def unarchive(self, id: str) -> Steps[ScenarioView]:
        """Show an archived scenario again."""
        return (yield from fetch(Request("POST", at(_PATH + "/{}/unarchive", id)), ScenarioView))

    @call
    def start_run(self, **fields: Unpack[ScenarioRunFields]) -> Steps[ScenarioRunView]:
        """Start a run and return at once; its devbox comes up meanwhile."""
        request = Request("POST", f"{_PATH}/start_run", json=body_of(fields))
        return (yield from fetch(request, ScenarioRunView))

    @call
    def start_run_and_await_env_ready(
        self, *, timeout: float | None = None, **fields: Unpack[ScenarioRunFields]
    ) -> Steps[ScenarioRunView]:
        """Start a run and wait until its devbox runs; raises StartFailed if it never will."""
        run = yield from self.start_run.steps(**fields)
        return (yield from self.runs.await_env_ready.steps(run.id, run.devbox_id, timeout))
