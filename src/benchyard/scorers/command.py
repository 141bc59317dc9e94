"""A command that passes by exiting with 0."""

from benchyard.scorers import base, reports, script
from benchyard.scorers.base import GraderConfig, Room, Scorer, Verdict


class CommandScorerConfig(GraderConfig):
    """Fields of a `command_scorer`."""

    command: base.Script


class CommandScorer(Scorer[CommandScorerConfig]):
    """Gives 1.0 if the command exits with 0, else 0.0, also if it cannot be started."""

    Config = CommandScorerConfig
    uses_shell = True

    async def score(self, room: Room) -> Verdict:
        verdict = await script.status_verdict(room, self.config.command, self.context)
        return reports.check_closing_line(self.config.command, verdict)
