"""A bash script that prints the score as its last line."""

from benchyard.scorers import base, script
from benchyard.scorers.base import GraderConfig, Room, Scorer, Verdict


class BashScriptConfig(GraderConfig):
    """What a `bash_script_scorer` is made of."""

    bash_script: base.Script


class BashScriptScorer(Scorer[BashScriptConfig]):
    """Runs the script; how it exits does not matter."""

    Config = BashScriptConfig
    uses_shell = True

    async def score(self, room: Room) -> Verdict:
        return await script.printed_verdict(room, self.config.bash_script, self.context)
