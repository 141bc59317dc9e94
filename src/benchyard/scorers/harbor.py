"""Tests of a task in Harbor's form: a script that leaves its rewards in a folder."""

import json
import math
import posixpath
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, StringConstraints

from benchyard.errors import ScorerFailed, UsageError
from benchyard.hosts.kits import Kit, Kits
from benchyard.models.base import Model
from benchyard.models.scenarios import AttachmentName, LongText
from benchyard.scorers import reports, score
from benchyard.scorers.base import ProgramOptions, Room, Scorer, Verdict
from benchyard.scorers.verifier import verifier_kit
from benchyard.workers import foreign_files

MOST_BYTES = 64 * 1024
MOST_REWARDS = 200
USUAL = "reward"
"""Name of a reward that was given without one."""
_SHOWN = 80
_LONGEST_NAME = 200


def parse_rewards(as_json: bytes | None, as_text: bytes | None) -> dict[str, float]:
    """Return the rewards of `reward.json`, else of `reward.txt`; raises ScorerFailed for invalid content."""
    if as_json is not None:
        return _of_json(as_json)
    if as_text is None:
        raise ScorerFailed("the tests left neither reward.json nor reward.txt in /logs/verifier")
    text = as_text.decode(errors="replace").strip()
    if not text:
        raise ScorerFailed("reward.txt is empty: the tests must write a number from 0 to 1")
    try:
        return {USUAL: _finite(float(text), "reward.txt")}
    except ValueError as error:
        raise ScorerFailed(f"reward.txt is {text[:_SHOWN]!r}, which is not a number") from error


def main_reward(rewards: dict[str, float], name: str | None = None) -> float:
    """Return the reward that is the score; raises ScorerFailed if it is missing or outside 0 to 1."""
    key = name or (USUAL if USUAL in rewards or len(rewards) != 1 else next(iter(rewards)))
    if key not in rewards:
        names = ", ".join(sorted(rewards)) or "none"
        raise ScorerFailed(f"the rewards have no {key!r}, which is the score; there are: {names}")
    if not 0 <= rewards[key] <= 1:
        raise ScorerFailed(f"the reward {key!r} is {rewards[key]:g}; a score is from 0 to 1")
    return rewards[key]


def _of_json(content: bytes) -> dict[str, float]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ScorerFailed(f"reward.json is not valid JSON: {error}") from error
    if not isinstance(found, dict) or len(found) > MOST_REWARDS:
        raise ScorerFailed(f"reward.json must be an object of at most {MOST_REWARDS} names and numbers")
    rewards = {}
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ScorerFailed(
                f"reward.json: {name[:_SHOWN]!r} is {str(value)[:_SHOWN]!r}, which is not a number"
            )
        rewards[_plain(name)] = _finite(value, "reward.json")
    return rewards


def _plain(name: str) -> str:
    """Make a name storable: JSON can contain lone surrogates, which no stored text may have."""
    return name[:_LONGEST_NAME].encode(errors="replace").decode()


def _finite(value: float, where: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ScorerFailed(f"{where} has {number}, which is not a finite number")
    return number


TESTS = "/tests"
LOGS = "/logs/verifier"
_SCRIPT = f"{TESTS}/test.sh"
_PROGRAM = 0o755
_SUMMARY = "benchyard.scorers.standalone.parsers:report_summary"
_MOST_REPORT_BYTES = 4 * 1024**2


class HarborConfig(Model):
    """Fields of a `harbor_scorer`."""

    tests: AttachmentName | None = "tests"
    """Attachment that is unpacked to /tests; None if the image has the tests."""
    script: LongText | None = None
    """Text of test.sh, read to find what the script needs."""
    user: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """User who runs the script; None is the scenario's user."""
    env: dict[str, str] = Field(default_factory=dict)
    reward: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """Name of the reward that is the score, if there are several and none is called `reward`."""
    report_tests: Annotated[int, Field(ge=0)] | None = None
    """Number of tests the runner's report must list, if the script makes it leave one.

    0 allows any number; None requires as many as the reference's report lists, if that is known.
    """


class HarborScorer(Scorer[HarborConfig]):
    """Scores by the rewards that /tests/test.sh writes to /logs/verifier; its exit status is ignored."""

    Config = HarborConfig

    _made: Sequence[Kit] = ()

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        needs = verifier_kit.needs_of(self.config.script or "")
        self._made = await verifier_kit.make(needs, kits)
        return tuple(self._made)

    async def score(self, room: Room) -> Verdict:
        await room.clear(LOGS, self.config.user)
        await self._put_tests(room)
        # PATH is left out here: the command itself puts the kit before the image's PATH.
        kit = {key: value for key, value in verifier_kit.environment(self._made).items() if key != "PATH"}
        env = {**kit, **self.config.env}
        how = ProgramOptions(env=env, user=self.config.user)
        ran = await room.run(verifier_kit.command(self._made, _SCRIPT), how)
        said = score.output(ran)
        if ran.timed_out:
            raise ScorerFailed("the tests were not done in time", output=said)
        try:
            rewards = parse_rewards(
                await room.fetch(f"{LOGS}/reward.json", MOST_BYTES),
                await room.fetch(f"{LOGS}/reward.txt", MOST_BYTES),
            )
            main = main_reward(rewards, self.config.reward)
        except ScorerFailed as error:
            raise ScorerFailed(error.message, output=said) from error
        facts = {**verifier_kit.facts(self._made), **await self._report(room)}
        return await self._checked(room, Verdict(main, said, facts, rewards))

    async def _checked(self, room: Room, verdict: Verdict) -> Verdict:
        """Adjust the verdict by the runner's report, if the script makes it leave one."""
        script = self.config.script or ""
        place = reports.place_of(script, self.config.env)
        if place is None:
            return reports.check_closing_line(script, verdict)
        return await reports.check(room, place, verdict, self.context, wanted=self.config.report_tests)

    async def _put_tests(self, room: Room) -> None:
        if self.config.tests is None:
            return
        await room.clear(TESTS)
        archive = await self.context.attached(self.config.tests)
        try:
            files = await foreign_files.archive_files(archive, self.context.call)
        except UsageError as error:
            raise ScorerFailed(error.message) from error
        for name, file in files.items():
            path = posixpath.join(TESTS, name)
            await room.put(path, file.content, mode=_PROGRAM if path == _SCRIPT else file.mode)

    async def _report(self, room: Room) -> dict[str, str]:
        """Return the counts of the tests' report, if it left one that can be read."""
        try:
            content = await room.fetch(f"{LOGS}/ctrf.json", _MOST_REPORT_BYTES)
            summary = await self.context.call(_SUMMARY, content) if content else {}
        except ScorerFailed:
            # The counts are only shown to people: the score does not depend on them.
            return {}
        return {name: str(count) for name, count in summary.items()}
