"""Custom scorers as objects: registered, found by id, changed, tried."""

from typing import Any, Unpack

from benchyard.client import scorers
from benchyard.client.core import Steps
from benchyard.client.listing import Listed
from benchyard.client.sdk.walking import everything
from benchyard.client.verbs import Group, S, call
from benchyard.client.wanted import Loose, PageFields
from benchyard.models.scenarios import CustomScorerView, ScenarioEnvironment, ScorerTrialView


class Scorer(Group[S]):
    """A bash script that scenarios name by its type."""

    def __init__(self, session: S, id: str) -> None:
        super().__init__(session)
        self.id = id

    def __repr__(self) -> str:
        return f"<Scorer {self.id}>"

    @call
    def get_info(self) -> Steps[CustomScorerView]:
        """As it is now."""
        return (yield from scorers.retrieve(self.id))

    @call
    def update(self, type: str, bash_script: str) -> Steps[CustomScorerView]:
        """Change its type and script; runs that were scored keep what they got."""
        return (yield from scorers.update(self.id, type, bash_script))

    @call
    def validate(
        self, scoring_context: Any, environment_parameters: ScenarioEnvironment | Loose | None = None
    ) -> Steps[ScorerTrialView]:
        """Try it with this context in a devbox that is made for it."""
        return (yield from scorers.validate(self.id, scoring_context, environment_parameters))


class ScorerOps(Group[S]):
    """Registers and finds custom scorers."""

    @call
    def create(self, type: str, bash_script: str) -> Steps[Scorer[S]]:
        """Register a bash script as a type of scorer; raises UsageError if the type is taken."""
        return Scorer(self.session, (yield from scorers.create(type, bash_script)).id)

    def from_id(self, scorer_id: str) -> Scorer[S]:
        """The custom scorer of that id; nothing is asked of the server yet."""
        return Scorer(self.session, scorer_id)

    @call
    def list(self, **query: Unpack[PageFields]) -> Steps[list[Scorer[S]]]:
        """Newest first; all, or at most `limit`."""
        views = yield from everything(Listed("/v1/scenarios/scorers", "scorers", CustomScorerView, query))
        return [Scorer(self.session, view.id) for view in views]
