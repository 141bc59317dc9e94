"""A bash script that was registered under a type, with parameters."""

from benchyard.errors import ScorerFailed
from benchyard.models.base import ShortText
from benchyard.scorers import base, script
from benchyard.scorers.base import GraderConfig, Room, Scorer, Verdict


class CustomConfig(GraderConfig):
    """Fields of a `custom_scorer`."""

    custom_scorer_type: ShortText
    scorer_params: base.Params | None = None


class CustomScorer(Scorer[CustomConfig]):
    """Runs the registered script, which prints the score as its last line."""

    Config = CustomConfig
    uses_shell = True

    async def score(self, room: Room) -> Verdict:
        type = self.config.custom_scorer_type
        text = self.context.scripts.get(type)
        if text is None:
            raise ScorerFailed(
                f"no scorer of type {type!r} is registered; register its bash script with "
                "POST /v1/scenarios/scorers",
                cause="scorer",
            )
        return await script.printed_verdict(room, text, self.context, self.config.scorer_params)
