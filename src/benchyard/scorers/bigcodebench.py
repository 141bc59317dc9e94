"""An answer of BigCodeBench, graded by its unit tests as the official harness does it."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from benchyard.errors import ScorerFailed
from benchyard.hosts.kits import Kit, Kits
from benchyard.models.base import Model, ShortText, WireFloat
from benchyard.scorers import (
    bigcodebench_job,
    bigcodebench_runner,
    fields,
    packages,
    python_kit,
    pythons,
    score,
)
from benchyard.scorers import bigcodebench_packages as listed
from benchyard.scorers.base import Context, How, Room, Scorer, Verdict
from benchyard.workers.workers import Limits

TIME_LIMIT_SEC = 240.0
_MOST_FACT = 4000
_JOB = "benchyard.scorers.parsers:make_bigcodebench_job"
_RESULT = "benchyard.scorers.parsers:bigcodebench_result"
_JOB_LIMITS = Limits(output_bytes=16 * 1024**2)
_SKIP = "skip"
"""Stands in tests that may be skipped, in whatever way."""
_MISSING = re.compile(r"No module named '([A-Za-z0-9_]+)")

Text = Annotated[str, Field(max_length=fields.MOST_SCRIPT_BYTES)]


class BigcodebenchConfig(Model):
    """What a `bigcodebench_scorer` is made of."""

    code_prompt: Text
    """Imports and signature: what stands before the answer."""
    test: fields.Script
    """With the class `TestCases`."""
    entry_point: ShortText = "task_func"
    answer: fields.FilePlace = "solution.py"
    modules: list[ShortText] | None = Field(default=None, max_length=200)
    """Only the packages of these modules, and what they need; None is the whole official list."""
    time_limit_sec: WireFloat = Field(default=TIME_LIMIT_SEC, gt=0, le=3600)


class BigcodebenchScorer(Scorer[BigcodebenchConfig]):
    """1.0 if every test passes, else 0.0; the answer runs as nobody, with the official limits."""

    Config = BigcodebenchConfig

    def __init__(self, config: BigcodebenchConfig, context: Context) -> None:
        super().__init__(config, context)
        self._packages = packages_of(config)
        self._python: Kit | None = None
        self._program = ""
        self._facts: dict[str, str] = {}

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        chosen = await _python()
        self._python = await python_kit.make(chosen, kits)
        self._program = python_kit.program(self._python.target)
        shown, installed = [self._python], ""
        is_official = listed.PYTHON.contains(chosen.version)
        if wanted := listed.requirements(self._packages, official_python=is_official):
            environment = await packages.make(chosen, self._python, wanted, kits)
            installed = packages.resolved(environment)
            self._program = python_kit.program(environment.target)
            shown.append(environment)
        self._note(chosen.version, installed)
        return tuple(shown)

    def _note(self, version: str, installed: str) -> None:
        differences = listed.differences(self._packages, installed, version)
        self._facts = {
            "python": version,
            "packages": installed[:_MOST_FACT],
            "environment": "unofficial environment" if differences else "official environment",
        }
        if differences:
            self._facts["differences"] = "; ".join(differences)[:_MOST_FACT]

    async def score(self, room: Room) -> Verdict:
        if self._python is None:
            raise ScorerFailed("the Python of this scorer was not made ready")
        content = await room.fetch(self.config.answer, bigcodebench_job.MOST_ANSWER_BYTES)
        if content is None:
            return Verdict(0.0, f"there is no {self.config.answer}", self._facts)
        program = await room.keep("run.py", Path(bigcodebench_runner.__file__).read_bytes())
        told = await self.context.call(_JOB, content, {"item": self.config.model_dump()}, _JOB_LIMITS)
        job = await room.keep("job.json", told)
        environment = {**python_kit.environment(self._python.target), "MPLBACKEND": "agg"}
        # Root only waits, and becomes nobody before anything of the answer runs.
        ran = await room.run(
            (self._program, "-I", "-X", "utf8", program, job),
            How(env=environment, cwd="/", user="root", most_output=4 * 1024**2),
        )
        score.ended(ran)
        said = await self.context.call(_RESULT, ran.stdout)
        if said is None:
            raise score.failed("the answer could not be run in this room", ran)
        return self._judged(said)

    def _judged(self, said: dict[str, Any]) -> Verdict:
        bad = said.get("bad", [])
        text = "\n".join(f"{name}: {told}" for name, told in bad)
        skipped = int(said.get("skipped", 0))
        told = f"{said.get('good', 0)} tests passed" + (f", {skipped} skipped" if skipped else "")
        output = said.get("reason") or (told if not bad else text)
        if self.config.modules is not None and (lacking := self._lacking(text)):
            raise ScorerFailed(
                f"the answer uses {', '.join(lacking)}, which the official environment has, and that of this "
                "scenario has not; import the benchmark with its whole environment (without `small`)",
                output=output[-_MOST_FACT:],
            )
        suspect = None
        if skipped > self.config.test.lower().count(_SKIP):
            suspect = f"{skipped} of the tests were skipped, which they do not ask for"
        facts = {**self._facts, "skipped": str(skipped)} if skipped else self._facts
        return Verdict(1.0 if said["passed"] else 0.0, output[-_MOST_FACT * 8 :], facts, suspect=suspect)

    def _lacking(self, text: str) -> list[str]:
        found = {name for module in _MISSING.findall(text) for name in listed.of_modules([module])}
        return sorted(found - {*self._packages, *listed.WITHOUT_WHEELS})


def packages_of(config: BigcodebenchConfig) -> tuple[str, ...]:
    """The names of the packages that an item is run with."""
    return tuple(listed.PINS) if config.modules is None else tuple(listed.of_modules(config.modules))


async def _python() -> pythons.Python:
    try:
        return await pythons.choose(listed.PYTHON)
    except ScorerFailed:
        return await pythons.choose(None)
