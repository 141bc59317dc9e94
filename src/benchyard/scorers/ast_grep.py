"""A pattern of code that must occur: searched by ast-grep, which the image need not have."""

import asyncio
from pathlib import Path

from benchyard.errors import ScorerFailed
from benchyard.hosts.dependencies import AST_GREP
from benchyard.hosts.kits import Kit, Kits
from benchyard.models.base import Model
from benchyard.scorers import base, score
from benchyard.scorers.base import ProgramOptions, Room, RoomResult, Scorer, ScoringContext, Verdict
from benchyard.scorers.kits import programs

_LAYOUT = 1
_CONFIG = b"ruleDirs: []\n"
"""Configuration used instead of the searched folders' own, which could assign files to another language."""
_FOUND, _NOT_FOUND = 0, 1


class AstGrepConfig(Model):
    """Fields of an `ast_grep_scorer`."""

    pattern: base.Argument
    search_directory: base.DirectoryPath
    lang: base.Argument | None = None


class AstGrepScorer(Scorer[AstGrepConfig]):
    """Gives 1.0 if the pattern matches anywhere in the directory, else 0.0; the output names the files."""

    Config = AstGrepConfig
    dependencies = (AST_GREP,)

    def __init__(self, config: AstGrepConfig, context: ScoringContext) -> None:
        super().__init__(config, context)
        self._kit: Kit | None = None

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        program = await asyncio.to_thread(programs.find, "ast-grep")
        key = f"ast-grep {_LAYOUT} {programs.digest(program)}"
        target = programs.target(key)

        async def fill(folder: Path) -> None:
            parts = programs.KitContents({"bin/ast-grep": program})
            await asyncio.to_thread(programs.write, folder, target, parts)

        self._kit = Kit(await kits.folder(key, fill), target)
        return (self._kit,)

    async def score(self, room: Room) -> Verdict:
        if self._kit is None:
            raise ScorerFailed("the ast-grep of this scorer was not prepared")
        config = await room.keep("sgconfig.yml", _CONFIG)
        variables = await base.scorer_environment(room, self.context)
        options = [f"--config={config}", f"--pattern={self.config.pattern}", "--color=never"]
        if self.config.lang:
            options.append(f"--lang={self.config.lang}")
        # Print one line for each file, however often the pattern matches in it.
        ran = await room.run(
            (
                f"{self._kit.target}/bin/ast-grep",
                "run",
                *options,
                "--files-with-matches",
                "--",
                self._place(),
            ),
            ProgramOptions(env={**variables, **programs.ALONE}),
        )
        return Verdict(self._read(ran), score.output(ran))

    def _place(self) -> str:
        return self.config.search_directory

    def _read(self, ran: RoomResult) -> float:
        score.require_end(ran)
        if ran.exit_status == _FOUND and ran.stdout:
            return 1.0
        # A missing directory ends with the same status as no match, but with an error message.
        is_missing = f"ERROR: {self._place()}: ".encode() in ran.stderr
        if ran.exit_status == _NOT_FOUND and not is_missing:
            return 0.0
        said = " ".join(ran.stderr.decode(errors="replace").split())[:1000]
        raise score.failure(f"ast-grep cannot search {self._place()!r} for this pattern: {said}", ran)
