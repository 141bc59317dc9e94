"""A scorer of your own as a class: the share of the expected lines that a file has.

A package with it is installed beside the server, and names it in its `pyproject.toml`:

    [project.entry-points."benchyard.scorers"]
    line-list = "custom_scorer:LineListScorer"

Then scenarios may have a scorer of the type `line_list_scorer`. For most tasks a script does:
docs/guides/scorers.md.
"""

from pydantic import Field

from benchyard.models.base import Model
from benchyard.scorers.base import FilePath, Room, Scorer, Verdict

MOST_BYTES = 64 * 1024


class LineListConfig(Model):
    """The fields of a `line_list_scorer`; a scenario with others is refused when it is made."""

    path: FilePath
    lines: list[str] = Field(min_length=1, max_length=1000)


class LineListScorer(Scorer[LineListConfig]):
    """Reads the file and compares here, on the server's side: nothing of the answer is run."""

    Config = LineListConfig

    async def score(self, room: Room) -> Verdict:
        """Return the share of lines that are there; raises ScorerFailed for a file that is too large."""
        content = await room.fetch(self.config.path, MOST_BYTES)
        found = set((content or b"").decode(errors="replace").splitlines())
        missing = [line for line in self.config.lines if line not in found]
        told = f"missing: {', '.join(missing)}" if missing else "all lines are there"
        return Verdict(1 - len(missing) / len(self.config.lines), told)
