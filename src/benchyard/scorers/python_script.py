"""A Python script that prints the score as its last line, run by a Python that is not the image's."""

from packaging.specifiers import SpecifierSet
from pydantic import field_validator

from benchyard.errors import ScorerFailed
from benchyard.hosts.kits import Kit, Kits
from benchyard.models.base import ShortText
from benchyard.scorers import base, score
from benchyard.scorers.base import GraderConfig, ProgramOptions, Room, Scorer, ScoringContext, Verdict
from benchyard.scorers.kits import packages, python_kit, pythons, requirements

_MOST_FACT = 4000


class PythonScriptConfig(GraderConfig):
    """Fields of a `python_script_scorer`."""

    python_script: base.Script
    python_version_constraint: ShortText | None = None
    requirements_contents: str | None = None

    @field_validator("python_script")
    @classmethod
    def _has_a_head_of_sense(cls, value: str) -> str:
        requirements.header(value)
        return value

    @field_validator("python_version_constraint")
    @classmethod
    def _is_a_constraint(cls, value: str | None) -> str | None:
        if value:
            pythons.constraint(value)
        return value

    @field_validator("requirements_contents")
    @classmethod
    def _are_requirements(cls, value: str | None) -> str | None:
        requirements.lines(value or "")
        return value

    def python(self) -> SpecifierSet | None:
        """Versions that both the script's head and the field allow; None if neither names any."""
        head, field = requirements.header(self.python_script).python, self.python_version_constraint
        constraints = [one for one in (head, pythons.constraint(field) if field else None) if one is not None]
        return SpecifierSet(",".join(str(one) for one in constraints)) if constraints else None

    def requirements(self) -> tuple[str, ...]:
        """All packages the script asks for."""
        head = requirements.header(self.python_script).requirements
        return (*head, *requirements.lines(self.requirements_contents or ""))


class PythonScriptScorer(Scorer[PythonScriptConfig]):
    """Runs the script in an environment made on the server and shown read-only in the room."""

    Config = PythonScriptConfig

    def __init__(self, config: PythonScriptConfig, context: ScoringContext) -> None:
        super().__init__(config, context)
        self._python: Kit | None = None
        self._program = ""
        self._facts: dict[str, str] = {}

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        chosen = await pythons.choose(self.config.python())
        self._python = await python_kit.make(chosen, kits)
        self._facts["python"] = chosen.version
        self._program = python_kit.program(self._python.target)
        requirements = self.config.requirements()
        if not requirements:
            return (self._python,)
        environment = await packages.make(chosen, self._python, requirements, kits)
        self._facts["packages"] = packages.resolved_versions(environment)[:_MOST_FACT]
        self._program = python_kit.program(environment.target)
        return (self._python, environment)

    async def score(self, room: Room) -> Verdict:
        if self._python is None:
            raise ScorerFailed("the Python of this scorer was not prepared")
        path = await room.keep("scorer.py", self.config.python_script.encode())
        variables = await base.scorer_environment(room, self.context)
        ran = await room.run(
            (self._program, "-I", "-X", "utf8", path),
            ProgramOptions(env={**variables, **python_kit.environment(self._python.target)}),
        )
        return Verdict(score.from_output(ran), score.output(ran), self._facts)
