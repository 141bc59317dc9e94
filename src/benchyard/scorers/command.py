"""A command that passes by exiting with 0."""

from benchyard.scorers import fields, script
from benchyard.scorers.base import GraderConfig, Room, Scorer, Verdict


class CommandConfig(GraderConfig):
    """What a `command_scorer` is made of."""

    command: fields.Script


class CommandScorer(Scorer[CommandConfig]):
    """1.0 for a command that exits with 0, else 0.0: also for one that cannot be started."""

    Config = CommandConfig
    uses_shell = True

    async def score(self, room: Room) -> Verdict:
        return await script.passed(room, self.config.command, self.context)
