"""A command that passes by exiting with 0."""

from benchyard.scorers import base, script
from benchyard.scorers.base import GraderConfig, Room, Scorer, Verdict


class CommandScorerConfig(GraderConfig):
    """What a `command_scorer` is made of."""

    command: base.Script


class CommandScorer(Scorer[CommandScorerConfig]):
    """1.0 for a command that exits with 0, else 0.0: also for one that cannot be started."""

    Config = CommandScorerConfig
    uses_shell = True

    async def score(self, room: Room) -> Verdict:
        return await script.status_verdict(room, self.config.command, self.context)
