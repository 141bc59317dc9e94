"""Custom scorers: register, look up, change, try."""

from typing import Any, Unpack

from benchyard.client.core import TRANSFER_TIMEOUT, Request, Steps, at, fetch
from benchyard.client.listing import Listed, listing
from benchyard.client.verbs import Group, S, call
from benchyard.client.wanted import Loose, PageFields, body_of
from benchyard.models.scenarios import CustomScorerView, ScenarioEnvironment, ScorerTrialView

_PATH = "/v1/scenarios/scorers"


class Scorers(Group[S]):
    """The custom scorers of a server: bash scripts that scenarios name by their type."""

    @call
    def create(self, type: str, bash_script: str) -> Steps[CustomScorerView]:
        """Register a bash script as a type of scorer; raises UsageError if the type is taken."""
        return (yield from create(type, bash_script))

    @call
    def retrieve(self, id: str) -> Steps[CustomScorerView]:
        """Look one up; raises NotFound."""
        return (yield from retrieve(id))

    get = retrieve

    @call
    def update(self, id: str, type: str, bash_script: str) -> Steps[CustomScorerView]:
        """Change its type and script; runs that were scored keep what they got."""
        return (yield from update(id, type, bash_script))

    @listing
    def list(self, **query: Unpack[PageFields]) -> Listed[CustomScorerView]:
        """Newest first."""
        return Listed(_PATH, "scorers", CustomScorerView, query)

    @call
    def validate(
        self,
        id: str,
        scoring_context: Any,
        environment_parameters: ScenarioEnvironment | Loose | None = None,
    ) -> Steps[ScorerTrialView]:
        """Try one with this context in a devbox that is made for it."""
        return (yield from validate(id, scoring_context, environment_parameters))


def create(type: str, bash_script: str) -> Steps[CustomScorerView]:
    """Register a custom scorer."""
    body = {"type": type, "bash_script": bash_script}
    return (yield from fetch(Request("POST", _PATH, json=body), CustomScorerView))


def retrieve(id: str) -> Steps[CustomScorerView]:
    """Look a custom scorer up."""
    return (yield from fetch(Request("GET", at(_PATH + "/{}", id)), CustomScorerView))


def update(id: str, type: str, bash_script: str) -> Steps[CustomScorerView]:
    """Change a custom scorer."""
    body = {"type": type, "bash_script": bash_script}
    return (yield from fetch(Request("POST", at(_PATH + "/{}", id), json=body), CustomScorerView))


def validate(
    id: str, context: Any, environment: ScenarioEnvironment | Loose | None
) -> Steps[ScorerTrialView]:
    """Try a custom scorer."""
    body = body_of({"scoring_context": context, "environment_parameters": environment})
    request = Request("POST", at(_PATH + "/{}/validate", id), json=body, timeout=TRANSFER_TIMEOUT)
    return (yield from fetch(request, ScorerTrialView))
