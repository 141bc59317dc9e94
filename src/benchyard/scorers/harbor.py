"""Tests of a task in Harbor's form: a script that leaves its rewards in a folder."""

import posixpath
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, StringConstraints

from benchyard.errors import ScorerFailed, UsageError
from benchyard.hosts.kits import Kit, Kits
from benchyard.models.base import Model
from benchyard.models.scenarios import AttachmentName, LongText
from benchyard.scorers import reports, rewards, score, verifier_kit
from benchyard.scorers.base import How, Room, Scorer, Verdict
from benchyard.workers import archives

TESTS = "/tests"
LOGS = "/logs/verifier"
_SCRIPT = f"{TESTS}/test.sh"
_PROGRAM = 0o755
_SUMMARY = "benchyard.scorers.parsers:report_summary"
_MOST_REPORT_BYTES = 4 * 1024**2


class HarborConfig(Model):
    """What a `harbor_scorer` is made of."""

    tests: AttachmentName | None = "tests"
    """The attachment that is put to /tests; None where the image has them."""
    script: LongText | None = None
    """What test.sh says, to see what it needs."""
    user: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """Who runs it; None is the scenario's user."""
    env: dict[str, str] = Field(default_factory=dict)
    reward: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """The reward that is the score, where there are several and none is called `reward`."""
    report_tests: Annotated[int, Field(ge=0)] | None = None
    """How many tests the runner's report must tell of, where the script has it leave one.

    0 is any number, None as many as that of the reference, where that is known.
    """


class HarborScorer(Scorer[HarborConfig]):
    """What /tests/test.sh writes to /logs/verifier, which is made anew for it; how it ends means nothing."""

    Config = HarborConfig

    _made: Sequence[Kit] = ()

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        needs = verifier_kit.needs_of(self.config.script or "")
        self._made = await verifier_kit.make(needs, kits)
        return tuple(self._made)

    async def score(self, room: Room) -> Verdict:
        await room.clear(LOGS, self.config.user)
        await self._put_tests(room)
        # Its way to programs is put before the one that the image has, by the command.
        kit = {key: value for key, value in verifier_kit.environment(self._made).items() if key != "PATH"}
        env = {**kit, **self.config.env}
        how = How(env=env, user=self.config.user)
        ran = await room.run(verifier_kit.command(self._made, _SCRIPT), how)
        said = score.output(ran)
        if ran.timed_out:
            raise ScorerFailed("the tests were not done in time", output=said)
        try:
            found = rewards.parse(
                await room.fetch(f"{LOGS}/reward.json", rewards.MOST_BYTES),
                await room.fetch(f"{LOGS}/reward.txt", rewards.MOST_BYTES),
            )
            main = rewards.main(found, self.config.reward)
        except ScorerFailed as error:
            raise ScorerFailed(error.message, output=said) from error
        facts = {**verifier_kit.facts(self._made), **await self._report(room)}
        return await self._checked(room, Verdict(main, said, facts, found))

    async def _checked(self, room: Room, verdict: Verdict) -> Verdict:
        """The verdict in view of the runner's report, where the script has it leave one."""
        place = reports.place_of(self.config.script or "")
        if place is None:
            return verdict
        return await reports.checked(room, place, verdict, self.context, wanted=self.config.report_tests)

    async def _put_tests(self, room: Room) -> None:
        if self.config.tests is None:
            return
        await room.clear(TESTS)
        archive = await self.context.attached(self.config.tests)
        try:
            files = await archives.files_of(archive, self.context.call)
        except UsageError as error:
            raise ScorerFailed(error.message) from error
        for name, file in files.items():
            path = posixpath.join(TESTS, name)
            await room.put(path, file.content, mode=_PROGRAM if path == _SCRIPT else file.mode)

    async def _report(self, room: Room) -> dict[str, str]:
        """What the tests counted, where they left a report that can be read."""
        try:
            content = await room.fetch(f"{LOGS}/ctrf.json", _MOST_REPORT_BYTES)
            summary = await self.context.call(_SUMMARY, content) if content else {}
        except ScorerFailed:
            # It is only told for people: the score does not come from it.
            return {}
        return {name: str(count) for name, count in summary.items()}
