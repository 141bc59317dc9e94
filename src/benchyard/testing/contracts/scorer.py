"""The scorer contract as tests, the scripts they run, and the room they run them in."""

import asyncio
import itertools
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

import pytest

from benchyard import registry
from benchyard.devboxes.base import Capability, Command, Driver, OpenFile, Status, read_status
from benchyard.errors import NotFound, ScorerFailed, UsageError
from benchyard.hosts.kits import Kit, KitFolders, Kits
from benchyard.scorers import catalog
from benchyard.scorers.base import (
    AS_USUAL,
    MOST_OUTPUT_BYTES,
    ProgramOptions,
    Room,
    RoomResult,
    Scorer,
    ScoringContext,
    Verdict,
)
from benchyard.testing.contracts.driver_fixture import DriverFixture, DriverSuite, contract


@dataclass(frozen=True)
class LanguageScripts:
    """Scripts for the tests, in one language."""

    reads: str
    """Prints the score in the file `answer`."""
    looks_at_context: str
    """Prints 1.0 if the environment and the context file hold the facts of the run."""
    programs: Mapping[str, str]


SCORES = {
    "bare": 0.7,
    "named": 0.7,
    "scientific": 0.25,
    "one": 1.0,
    "zero": 0.0,
    "spaces": 0.5,
    "carriage returns": 0.5,
    "empty lines after it": 0.5,
    "exits with 1": 1.0,
    "bytes before it": 0.5,
    "no newline": 0.5,
    "a daemon that prints later": 0.25,
}
"""Name of a program -> the score it prints."""

UNUSABLE = {
    "nothing": "printed nothing",
    "empty lines": "printed nothing",
    "closed output": "printed nothing",
    "nan": "'nan'",
    "infinite": "'inf'",
    "seven": "'7'",
    "minus one": "'-1'",
    "a little more than one": "'1.0000001'",
    "words": "'all is well'",
    "a word after it": "'0.5 points'",
    "a long line": "'xxxx",
    "bytes": "\ufffd",
}
"""Name of a program -> the complaint about its last line."""

FAILING = {
    "hangs": "scorer_timeout_sec",
    "hangs after a score": "scorer_timeout_sec",
    "killed": "signal 9",
    "crashes after a score": "signal 11",
}
"""Name of a program -> the reason why it has no score."""

BASH = LanguageScripts(
    reads="cat answer\n",
    looks_at_context="""
[[ $RL_SCORER_CONTEXT == "$RL_TEST_CONTEXT" ]] &&
[[ $RL_SCORER_CONTEXT == *'"benchyard":{"problem_statement":'* ]] &&
[[ $(cat "$BENCHYARD_SCORER_CONTEXT_FILE") == "$RL_SCORER_CONTEXT" ]] && echo 1.0
""",
    programs={
        "bare": "echo 0.7",
        "named": "echo begin; echo score=0.7",
        "scientific": "echo 2.5e-1",
        "one": "echo 1",
        "zero": "echo -0.0",
        "spaces": "printf ' \\t score = 0.5 \\t\\n'",
        "carriage returns": "printf 'a\\r\\n0.5\\r\\n'",
        "empty lines after it": "printf '0.5\\n\\n \\n\\t\\n'",
        "exits with 1": "echo 1.0; exit 1",
        "bytes before it": "printf '\\377\\000\\n0.5\\n'",
        "no newline": "printf 0.5",
        "a daemon that prints later": "(setsid bash -c 'sleep 1; echo 1.0' &) ; echo 0.25",
        "nothing": "true",
        "empty lines": "printf '\\n \\n'",
        "closed output": "exec >&-; echo 1.0",
        "nan": "echo nan",
        "infinite": "echo inf",
        "seven": "echo 7",
        "minus one": "echo -1",
        "a little more than one": "echo 1.0000001",
        "words": "echo 1.0; echo all is well",
        "a word after it": "echo 0.5 points",
        "a long line": "head -c 70000 /dev/zero | tr '\\0' x; echo 1.0",
        "bytes": "printf '1.0\\377\\n'",
        "hangs": "sleep 600",
        "hangs after a score": "echo 1.0; sleep 600",
        "killed": "kill -9 $$",
        "crashes after a score": "echo 1.0; kill -SEGV $$",
        "40 MB": "head -c 40000000 /dev/zero | tr '\\0' x; echo; echo 0.25",
    },
)

PYTHON = LanguageScripts(
    reads="print(open('answer').read())\n",
    looks_at_context="""
import json, os
whole = os.environ["RL_SCORER_CONTEXT"]
same = whole == os.environ["RL_TEST_CONTEXT"] == open(os.environ["BENCHYARD_SCORER_CONTEXT_FILE"]).read()
print(float(same and json.loads(whole)["benchyard"]["problem_statement"].startswith("Make the tests pass.")))
""",
    programs={
        "bare": "print(0.7)",
        "named": "print('begin'); print('score=0.7')",
        "scientific": "print('2.5e-1')",
        "one": "print(1)",
        "zero": "print(-0.0)",
        "spaces": "print(' \\t score = 0.5 \\t')",
        "carriage returns": "print('a\\r\\n0.5\\r')",
        "empty lines after it": "print('0.5\\n\\n \\n\\t')",
        "exits with 1": "print(1.0); raise SystemExit(1)",
        "bytes before it": "import os; os.write(1, b'\\xff\\0\\n0.5\\n')",
        "no newline": "print(0.5, end='')",
        "a daemon that prints later": (
            "import os, time\nprint(0.25, flush=True)\nif os.fork() == 0:\n"
            "    os.setsid(); time.sleep(1); print(1.0, flush=True); os._exit(0)\n"
        ),
        "nothing": "pass",
        "empty lines": "print('\\n \\n')",
        "closed output": "import os; os.close(1); os.open('/dev/null', os.O_WRONLY); print(1.0)",
        "nan": "print(float('nan'))",
        "infinite": "print(float('inf'))",
        "seven": "print(7)",
        "minus one": "print(-1)",
        "a little more than one": "print(1.0000001)",
        "words": "print(1.0); print('all is well')",
        "a word after it": "print('0.5 points')",
        "a long line": "print('x' * 70000 + '1.0')",
        "bytes": "import os; os.write(1, b'1.0\\xff\\n')",
        "hangs": "import time; time.sleep(600)",
        "hangs after a score": "import time; print(1.0, flush=True); time.sleep(600)",
        "killed": "import os; os.kill(os.getpid(), 9)",
        "crashes after a score": "import os; print(1.0, flush=True); os.kill(os.getpid(), 11)",
        "40 MB": "print('x' * 40_000_000); print(0.25)",
    },
)


_GIVES_UP_SECONDS = 60.0
"""Seconds after a command's timeout within which it must be gone."""
_STRICT: dict[str, Any] = {"strict": True} if "strict" in {one.name for one in fields(Command)} else {}


class ScoringRoom(Room):
    """A scorer's view of a devbox of a yard."""

    def __init__(
        self, yard: DriverFixture, devbox: str, *, user: str = "root", seconds: float = 60.0
    ) -> None:
        self.working_directory = "/tmp"  # noqa: S108  it is the devbox's
        self.user = user
        self.seconds = seconds
        self.environment: dict[str, str] = {}
        """Variables of the devbox: as an image or a scenario sets them."""
        self._yard = yard
        self._devbox = devbox
        self._began: float | None = None
        self._numbers = itertools.count(1)

    async def put(self, path: str, content: bytes, *, mode: int = 0o644) -> str:
        whole = os.path.normpath(f"{self.working_directory}/{path}" if path[:1] != "/" else path)
        try:
            await self._write(OpenFile(whole, self.user, write=True, mode=mode), content)
        except UsageError as error:
            raise ScorerFailed(f"{path} cannot be written: {error.message}") from error
        return whole

    async def keep(self, name: str, content: bytes) -> str:
        path = f"/run/room-{id(self)}/{name}"
        request = OpenFile(path, write=True, mode=0o640, fresh=True, group_of=self.user)
        await self._write(request, content)
        return path

    async def _write(self, request: OpenFile, content: bytes) -> None:
        descriptor = await self._yard.driver.open_file(self._devbox, request)
        with os.fdopen(descriptor, "wb") as file:
            await asyncio.to_thread(file.write, content)

    async def clear(self, folder: str, user: str | None = None) -> None:
        marker = f"{folder}/.fresh"
        request = OpenFile(marker, "root", write=True, fresh=True, emptied_for=user or "root")
        os.close(await self._yard.driver.open_file(self._devbox, request))

    async def fetch(self, path: str, limit: int) -> bytes | None:
        whole = os.path.normpath(f"{self.working_directory}/{path}" if path[:1] != "/" else path)
        try:
            descriptor = await self._yard.driver.open_file(self._devbox, OpenFile(whole, "root"))
        except NotFound:
            return None
        except UsageError as error:
            raise ScorerFailed(f"{whole} could not be read: {error.message}") from error
        with os.fdopen(descriptor, "rb") as file:
            content = await asyncio.to_thread(file.read, limit + 1)
        if len(content) > limit:
            raise ScorerFailed(f"{whole} is larger than {limit} bytes")
        return content

    async def run(self, argv: Sequence[str], how: ProgramOptions = AS_USUAL) -> RoomResult:
        self._began = self._began or time.monotonic()
        left = self.seconds - (time.monotonic() - self._began)
        if left <= 0:
            return RoomResult(exit_status=137, stdout=b"", stderr=b"", timed_out=True)
        command = await self._yard.begin(
            self._devbox,
            argv=tuple(argv),
            user=how.user or self.user,
            cwd=how.cwd or self.working_directory,
            env={**self.environment, **how.env},
            timeout_seconds=left,
            **_STRICT,
        )
        async with asyncio.timeout(left + _GIVES_UP_SECONDS):
            status = await _ended(command.folder)
        return _ran(command.folder, status, how.most_output)


async def _ended(folder: Path) -> Status:
    while True:
        if status := read_status(folder):
            return status
        await asyncio.sleep(0.01)


def _ran(folder: Path, status: Status, most: int) -> RoomResult:
    killed = status.exit_status - 128 if 128 < status.exit_status <= 192 else None
    return RoomResult(
        status.exit_status,
        _end(folder / "stdout", most),
        _end(folder / "stderr", most),
        timed_out=status.timed_out,
        signal=getattr(status, "signal", killed),
        truncated=status.stdout_truncated,
    )


def _end(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - most))
        return file.read(most)


async def devbox_with(yard: DriverFixture, kits: Sequence[Kit], **changes: Any) -> str:
    """Start a devbox that shows these kits; skip the test if the driver cannot show folders."""
    if not kits:
        return await yard.devbox(**changes)
    if "mounts" not in {one.value for one in yard.driver.capabilities}:
        pytest.skip("the driver cannot show folders of the host in a devbox")
    return await yard.devbox(mounts=tuple(kits), **changes)


STATEMENT = 'Make the tests pass.\n"Quoted", naïve, \\ and $HOME.'
_PLACE = "/tmp/task"  # noqa: S108  it is the devbox's
_CHEAT = "echo 1.0\necho score=1.0\nexit 0\n"
_PLANTED = {
    **dict.fromkeys((".bashrc", ".bash_profile", ".profile", "bash", "python3", "ast-grep"), _CHEAT),
    **dict.fromkeys(("sitecustomize.py", "usercustomize.py", "json.py"), "print(1.0); raise SystemExit"),
    **dict.fromkeys(("sgconfig.yml", "pyvenv.cfg", "uv.toml"), "{{{"),
}
"""Files an agent could leave in the hope that a scorer reads them."""


@dataclass(frozen=True)
class GradingCase:
    """A scorer, and the files the agent left for it in the working directory."""

    fields: Mapping[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)
    score: float = 1.0
    scripts: Mapping[str, str] = field(default_factory=dict)
    """Scripts of registered custom scorers."""


class GradingSuite(DriverSuite):
    """Scorers of one type, used for grading in real devboxes."""

    type: ClassVar[str]

    def make_driver(self, folder: Path) -> Driver:
        """Return the native driver, unless overridden."""
        driver: Driver = registry.load("devboxes", "native")(folder, {})
        return driver

    def scorer(self, case: GradingCase) -> Scorer[Any]:
        """Return the scorer of a case."""
        return catalog.parse(
            self.type, case.fields, ScoringContext({"problem_statement": STATEMENT}, case.scripts)
        )

    async def grade(
        self, yard: DriverFixture, *cases: GradingCase, **room: Any
    ) -> list[Verdict | ScorerFailed]:
        """Grade each case, all in one devbox, one after the other; keywords are attributes of the rooms."""
        scorers = [self.scorer(case) for case in cases]
        shown: dict[str, Kit] = {}
        for scorer in scorers:
            shown |= {kit.target: kit for kit in await scorer.kits(kits_of(yard))}
        devbox = await devbox_with(yard, list(shown.values()))
        graded: list[Verdict | ScorerFailed] = []
        for case, scorer in zip(cases, scorers, strict=True):
            sight = ScoringRoom(yard, devbox)
            sight.working_directory = _PLACE
            for name, value in room.items():
                setattr(sight, name, value)
            for path, content in {f"{_PLACE}/.here": "", **case.files}.items():
                await sight.put(path, content.encode())
            try:
                graded.append(await scorer.score(sight))
            except ScorerFailed as error:
                graded.append(error)
        return graded

    async def scores(self, yard: DriverFixture, *cases: GradingCase, **room: Any) -> list[float]:
        """Return the scores of cases that have one."""
        graded = await self.grade(yard, *cases, **room)
        assert all(isinstance(result, Verdict) for result in graded), graded
        return [result.score for result in graded if isinstance(result, Verdict)]


class ScorerContract(GradingSuite):
    """Duties of every scorer: a score from 0 to 1, or ScorerFailed."""

    wrong_kinds: ClassVar[Mapping[str, Any]] = {}
    """Field -> a value of a wrong kind, for fields that accept a number."""

    def passes(self) -> GradingCase:
        """Return a case that is graded with more than 0."""
        raise NotImplementedError

    def fails(self) -> GradingCase:
        """Return a case that is graded lower, because of the files the agent left."""
        raise NotImplementedError

    def test_it_is_found_by_its_type(self) -> None:
        """The catalog finds the scorer by its type, with its context."""
        scorer = self.scorer(self.passes())
        assert self.type in catalog.types()
        assert scorer.context.facts == {"problem_statement": STATEMENT}

    def test_fields_it_does_not_know_are_ignored(self) -> None:
        """Unknown fields are ignored everywhere on the wire."""
        fields = {**self.passes().fields, "of_a_newer_client": {"x": 1}}
        assert catalog.parse(self.type, fields, ScoringContext()).config == self.scorer(self.passes()).config

    def test_fields_of_a_wrong_kind_are_refused_by_name(self) -> None:
        """Each field is refused; few of them accept a number."""
        for name in self.scorer(self.passes()).Config.model_fields:
            wrong = self.wrong_kinds.get(name, 7)
            with pytest.raises(UsageError, match=name):
                catalog.parse(self.type, {**self.passes().fields, name: wrong}, ScoringContext())

    @contract()
    async def test_it_tells_good_from_bad(self, yard: DriverFixture) -> None:
        good, bad = self.passes(), self.fails()
        assert await self.scores(yard, good) == [good.score]
        assert await self.scores(yard, bad) == [bad.score]
        assert 0 <= bad.score < good.score <= 1

    @contract()
    async def test_the_same_again_gives_the_same(self, yard: DriverFixture) -> None:
        good = self.passes()
        assert await self.scores(yard, good, good) == [good.score, good.score]

    @contract(Capability.USERS)
    async def test_it_needs_no_rights(self, yard: DriverFixture) -> None:
        good = self.passes()
        assert await self.scores(yard, good, user="1000") == [good.score]

    @contract()
    async def test_what_lies_about_does_not_speak_for_it(self, yard: DriverFixture) -> None:
        bad = self.fails()
        planted = GradingCase(bad.fields, {**_PLANTED, **bad.files}, bad.score, bad.scripts)
        files = {"BASH_ENV": ".bashrc", "ENV": ".bashrc", "PYTHONSTARTUP": "json.py", "PYTHONPATH": "."}
        environment = {name: f"{_PLACE}/{file}" for name, file in files.items()}
        environment["HOME"] = _PLACE
        assert await self.scores(yard, planted, environment=environment) == [bad.score]

    @contract()
    async def test_time_that_is_over_is_an_error(self, yard: DriverFixture) -> None:
        (graded,) = await self.grade(yard, self.passes(), seconds=0.0)
        assert isinstance(graded, ScorerFailed)
        assert "scorer_timeout_sec" in graded.message

    @contract()
    async def test_a_working_directory_that_is_gone_earns_nothing(self, yard: DriverFixture) -> None:
        gone = GradingCase(self.passes().fields, scripts=self.passes().scripts)
        (graded,) = await self.grade(yard, gone, working_directory="/no/such/folder")
        assert isinstance(graded, ScorerFailed) or graded.score == 0

    @contract()
    async def test_kits_are_made_once_and_have_places_of_their_own(self, yard: DriverFixture) -> None:
        async def asked() -> tuple[Kit, ...]:
            return await self.scorer(self.passes()).kits(kits_of(yard))

        first, second = await asyncio.gather(asked(), asked())
        assert first == second == await asked()
        assert len({kit.target for kit in first}) == len(first)
        assert all(kit.source.is_dir() and kit.target.startswith("/") for kit in first)


def kits_of(yard: DriverFixture) -> Kits:
    """Return the kits that all suites share: some take seconds to make."""
    return KitFolders(yard.shared.parent / "scorer-kits")


class PrintingContract(ScorerContract):
    """Duties of scorers with a script that prints the score: any last line is possible."""

    scripts: ClassVar[LanguageScripts]

    def script(self, text: str) -> GradingCase:
        """Return a scorer that runs this script."""
        raise NotImplementedError

    def passes(self) -> GradingCase:
        """Return a case with a script that looks at a file."""
        return GradingCase(
            self.script(self.scripts.reads).fields, {"answer": "0.75\n"}, 0.75, self._registered()
        )

    def fails(self) -> GradingCase:
        """Return a case whose file says otherwise."""
        return GradingCase(self.script(self.scripts.reads).fields, {"answer": "0\n"}, 0.0, self._registered())

    def _registered(self) -> Mapping[str, str]:
        return self.script(self.scripts.reads).scripts

    @contract()
    async def test_the_last_line_is_the_score(self, yard: DriverFixture) -> None:
        cases = [self.script(self.scripts.programs[name]) for name in SCORES]
        assert dict(zip(SCORES, await self.scores(yard, *cases), strict=True)) == SCORES

    @contract()
    async def test_a_last_line_that_is_not_a_score_is_an_error_with_that_line(
        self, yard: DriverFixture
    ) -> None:
        cases = [self.script(self.scripts.programs[name]) for name in UNUSABLE]
        for (name, result), graded in zip(UNUSABLE.items(), await self.grade(yard, *cases), strict=True):
            assert isinstance(graded, ScorerFailed), (name, graded)
            assert result in graded.message, name

    @contract()
    async def test_scripts_that_do_not_end_by_themselves_are_errors(self, yard: DriverFixture) -> None:
        for name, told in FAILING.items():
            case = self.script(self.scripts.programs[name])
            (graded,) = await self.grade(yard, case, seconds=3.0)
            assert isinstance(graded, ScorerFailed), (name, graded)
            assert told in graded.message, name

    @contract()
    async def test_of_much_output_the_end_is_kept(self, yard: DriverFixture) -> None:
        (graded,) = await self.grade(yard, self.script(self.scripts.programs["40 MB"]))
        assert isinstance(graded, Verdict), graded
        assert graded.score == 0.25
        assert len(graded.output) <= MOST_OUTPUT_BYTES
        assert graded.output.endswith("0.25\n")

    @contract()
    async def test_the_context_is_in_the_environment_and_in_a_file(self, yard: DriverFixture) -> None:
        assert await self.scores(yard, self.script(self.scripts.looks_at_context)) == [1.0]


class PassingContract(ScorerContract):
    """Duties of scorers with a command that passes by exiting with 0."""

    def command(self, text: str) -> GradingCase:
        """Return a scorer that runs this command."""
        raise NotImplementedError

    def passes(self) -> GradingCase:
        """Return a case with a command that looks at a file."""
        return GradingCase(self.command("grep -q yes answer").fields, {"answer": "yes\n"}, 1.0)

    def fails(self) -> GradingCase:
        """Return a case whose file says otherwise."""
        return GradingCase(self.command("grep -q yes answer").fields, {"answer": "no\n"}, 0.0)

    @contract()
    async def test_only_exit_status_0_passes(self, yard: DriverFixture) -> None:
        ends = [
            "true",
            "exit 0",
            "false",
            "exit 3",
            "exit 255",
            "no-such-program",
            "/etc/passwd",
            "fi",
            "true\r",
        ]
        cases = [self.command(end) for end in ends]
        assert await self.scores(yard, *cases) == [1.0, 1.0, *[0.0] * 7]

    @contract()
    async def test_the_output_is_kept(self, yard: DriverFixture) -> None:
        commands = (
            "echo out; echo err >&2; exit 1",
            r"printf 'a\377\000b'",
            "exec >&- 2>&-",
            "echo 1.0; false",
        )
        graded = await self.grade(yard, *(self.command(text) for text in commands))
        kept = [(result.score, result.output) for result in graded if isinstance(result, Verdict)]
        assert kept == [(0.0, "err\nout\n"), (1.0, "a\ufffd\ufffdb"), (1.0, ""), (0.0, "1.0\n")]

    @contract()
    async def test_commands_that_do_not_end_by_themselves_are_errors(self, yard: DriverFixture) -> None:
        for text, told in (("sleep 600", "scorer_timeout_sec"), ("kill -SEGV $$", "signal 11")):
            (graded,) = await self.grade(yard, self.command(text), seconds=3.0)
            assert isinstance(graded, ScorerFailed), (text, graded)
            assert told in graded.message

    @contract()
    async def test_the_context_is_in_the_environment(self, yard: DriverFixture) -> None:
        looks = f"{{ {BASH.looks_at_context.strip()}; }} | grep -q 1.0"
        assert await self.scores(yard, self.command(looks)) == [1.0]
