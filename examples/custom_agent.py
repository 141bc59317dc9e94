"""An agent of your own as a class: it writes the words of the problem into a file, one on each line.

A package with it is installed beside the server, and names it in its `pyproject.toml`:

    [project.entry-points."benchyard.agents"]
    word-list = "custom_agent:WordListAgent"

Then it is on the list: `benchyard job run --agent word-list --agent-kwargs file=out.txt`. A program that is
no Python class needs no package: docs/guides/your-own-agent.md.
"""

import shlex

from pydantic import Field

from benchyard.agents.base import Agent, Launch, Task
from benchyard.models.base import Model


class WordListConfig(Model):
    """The kwargs that the agent takes."""

    file: str = Field(default="words.txt", description="The file it writes.")


class WordListAgent(Agent[WordListConfig]):
    """Starts in the working directory, with the problem on its standard input."""

    name = "word-list"
    Config = WordListConfig

    def launch(self, task: Task) -> Launch | None:
        """Return the command that does the work in the devbox."""
        return Launch(f"tr -s '[:space:]' '\\n' > {shlex.quote(self.config.file)}")
