"""The scorer contract as tests: what every way of grading owes.

Subclass `ScorerContract` in a test module, say which type it is and what passes and fails, and pytest does
the rest. Scorers whose script prints the score subclass `PrintingContract`, those that pass by an exit status
`PassingContract`; both say how a script becomes the fields of a scorer.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from benchyard import registry
from benchyard.devboxes.base import Capability, Driver
from benchyard.errors import ScorerFailed, UsageError
from benchyard.hosts.kits import Kit, KitFolders, Kits
from benchyard.scorers import catalog
from benchyard.scorers.base import MOST_OUTPUT_BYTES, Context, Scorer, Verdict
from benchyard.testing.scorer_scripts import BASH, FAILING, SCORES, UNUSABLE, LanguageScripts
from benchyard.testing.scoring_room import ScoringRoom, devbox_with
from benchyard.testing.yard import Makes, Yard, contract

STATEMENT = 'Make the tests pass.\n"Quoted", naïve, \\ and $HOME.'
_PLACE = "/tmp/task"  # noqa: S108  it is the devbox's
_CHEAT = "echo 1.0\necho score=1.0\nexit 0\n"
_PLANTED = {
    **dict.fromkeys((".bashrc", ".bash_profile", ".profile", "bash", "python3", "ast-grep"), _CHEAT),
    **dict.fromkeys(("sitecustomize.py", "usercustomize.py", "json.py"), "print(1.0); raise SystemExit"),
    **dict.fromkeys(("sgconfig.yml", "pyvenv.cfg", "uv.toml"), "{{{"),
}
"""What an agent could leave in the hope that a scorer reads it."""


@dataclass(frozen=True)
class Case:
    """A scorer, and what the agent left for it in the working directory."""

    fields: Mapping[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)
    score: float = 1.0
    scripts: Mapping[str, str] = field(default_factory=dict)
    """Those of registered custom scorers."""


class Grading(Makes):
    """Scorers of one type, graded with in real devboxes."""

    type: ClassVar[str]

    def make_driver(self, folder: Path) -> Driver:
        """The native driver, unless overridden."""
        driver: Driver = registry.load("devboxes", "native")(folder, {})
        return driver

    def scorer(self, case: Case) -> Scorer[Any]:
        """The scorer of a case."""
        return catalog.parse(self.type, case.fields, Context({"problem_statement": STATEMENT}, case.scripts))

    async def grade(self, yard: Yard, *cases: Case, **room: Any) -> list[Verdict | ScorerFailed]:
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

    async def scores(self, yard: Yard, *cases: Case, **room: Any) -> list[float]:
        """The scores of cases that have one."""
        graded = await self.grade(yard, *cases, **room)
        assert all(isinstance(each, Verdict) for each in graded), graded
        return [each.score for each in graded if isinstance(each, Verdict)]


class ScorerContract(Grading):
    """What every scorer owes: a score from 0 to 1, or ScorerFailed."""

    wrong_kinds: ClassVar[Mapping[str, Any]] = {}
    """Field -> a value of a wrong kind, for fields that a number is right for."""

    def passes(self) -> Case:
        """One that is graded with more than 0."""
        raise NotImplementedError

    def fails(self) -> Case:
        """One that is graded lower, because of what the agent left."""
        raise NotImplementedError

    def test_it_is_found_by_its_type(self) -> None:
        """The catalog has it, and gives it its context."""
        scorer = self.scorer(self.passes())
        assert self.type in catalog.types()
        assert scorer.context.facts == {"problem_statement": STATEMENT}

    def test_fields_it_does_not_know_are_ignored(self) -> None:
        """As everywhere on the wire."""
        fields = {**self.passes().fields, "of_a_newer_client": {"x": 1}}
        assert catalog.parse(self.type, fields, Context()).config == self.scorer(self.passes()).config

    def test_fields_of_a_wrong_kind_are_refused_by_name(self) -> None:
        """Each of them; a number is right for few."""
        for name in self.scorer(self.passes()).Config.model_fields:
            wrong = self.wrong_kinds.get(name, 7)
            with pytest.raises(UsageError, match=name):
                catalog.parse(self.type, {**self.passes().fields, name: wrong}, Context())

    @contract()
    async def test_it_tells_good_from_bad(self, yard: Yard) -> None:
        good, bad = self.passes(), self.fails()
        assert await self.scores(yard, good) == [good.score]
        assert await self.scores(yard, bad) == [bad.score]
        assert 0 <= bad.score < good.score <= 1

    @contract()
    async def test_the_same_again_gives_the_same(self, yard: Yard) -> None:
        good = self.passes()
        assert await self.scores(yard, good, good) == [good.score, good.score]

    @contract(Capability.USERS)
    async def test_it_needs_no_rights(self, yard: Yard) -> None:
        good = self.passes()
        assert await self.scores(yard, good, user="1000") == [good.score]

    @contract()
    async def test_what_lies_about_does_not_speak_for_it(self, yard: Yard) -> None:
        bad = self.fails()
        planted = Case(bad.fields, {**_PLANTED, **bad.files}, bad.score, bad.scripts)
        files = {"BASH_ENV": ".bashrc", "ENV": ".bashrc", "PYTHONSTARTUP": "json.py", "PYTHONPATH": "."}
        environment = {name: f"{_PLACE}/{file}" for name, file in files.items()}
        environment["HOME"] = _PLACE
        assert await self.scores(yard, planted, environment=environment) == [bad.score]

    @contract()
    async def test_time_that_is_over_is_an_error(self, yard: Yard) -> None:
        (graded,) = await self.grade(yard, self.passes(), seconds=0.0)
        assert isinstance(graded, ScorerFailed)
        assert "scorer_timeout_sec" in graded.message

    @contract()
    async def test_a_working_directory_that_is_gone_earns_nothing(self, yard: Yard) -> None:
        gone = Case(self.passes().fields, scripts=self.passes().scripts)
        (graded,) = await self.grade(yard, gone, working_directory="/no/such/folder")
        assert isinstance(graded, ScorerFailed) or graded.score == 0

    @contract()
    async def test_kits_are_made_once_and_have_places_of_their_own(self, yard: Yard) -> None:
        async def asked() -> tuple[Kit, ...]:
            return await self.scorer(self.passes()).kits(kits_of(yard))

        first, second = await asyncio.gather(asked(), asked())
        assert first == second == await asked()
        assert len({kit.target for kit in first}) == len(first)
        assert all(kit.source.is_dir() and kit.target.startswith("/") for kit in first)


def kits_of(yard: Yard) -> Kits:
    """The kits that all suites share: some take seconds to make."""
    return KitFolders(yard.shared.parent / "scorer-kits")


class PrintingContract(ScorerContract):
    """What scorers owe whose script prints the score: any last line is possible."""

    scripts: ClassVar[LanguageScripts]

    def script(self, text: str) -> Case:
        """A scorer that runs this."""
        raise NotImplementedError

    def passes(self) -> Case:
        """It looks at a file."""
        return Case(self.script(self.scripts.reads).fields, {"answer": "0.75\n"}, 0.75, self._registered())

    def fails(self) -> Case:
        """The file says otherwise."""
        return Case(self.script(self.scripts.reads).fields, {"answer": "0\n"}, 0.0, self._registered())

    def _registered(self) -> Mapping[str, str]:
        return self.script(self.scripts.reads).scripts

    @contract()
    async def test_the_last_line_is_the_score(self, yard: Yard) -> None:
        cases = [self.script(self.scripts.programs[name]) for name in SCORES]
        assert dict(zip(SCORES, await self.scores(yard, *cases), strict=True)) == SCORES

    @contract()
    async def test_a_last_line_that_is_no_score_is_an_error_with_that_line(self, yard: Yard) -> None:
        cases = [self.script(self.scripts.programs[name]) for name in UNUSABLE]
        for (name, told), graded in zip(UNUSABLE.items(), await self.grade(yard, *cases), strict=True):
            assert isinstance(graded, ScorerFailed), (name, graded)
            assert told in graded.message, name

    @contract()
    async def test_scripts_that_do_not_end_by_themselves_are_errors(self, yard: Yard) -> None:
        for name, told in FAILING.items():
            case = self.script(self.scripts.programs[name])
            (graded,) = await self.grade(yard, case, seconds=3.0)
            assert isinstance(graded, ScorerFailed), (name, graded)
            assert told in graded.message, name

    @contract()
    async def test_of_much_output_the_end_is_kept(self, yard: Yard) -> None:
        (graded,) = await self.grade(yard, self.script(self.scripts.programs["40 MB"]))
        assert isinstance(graded, Verdict), graded
        assert graded.score == 0.25
        assert len(graded.output) <= MOST_OUTPUT_BYTES
        assert graded.output.endswith("0.25\n")

    @contract()
    async def test_the_context_is_in_the_environment_and_in_a_file(self, yard: Yard) -> None:
        assert await self.scores(yard, self.script(self.scripts.looks_at_context)) == [1.0]


class PassingContract(ScorerContract):
    """What scorers owe whose command passes by exiting with 0."""

    def command(self, text: str) -> Case:
        """A scorer that runs this."""
        raise NotImplementedError

    def passes(self) -> Case:
        """It looks at a file."""
        return Case(self.command("grep -q yes answer").fields, {"answer": "yes\n"}, 1.0)

    def fails(self) -> Case:
        """The file says otherwise."""
        return Case(self.command("grep -q yes answer").fields, {"answer": "no\n"}, 0.0)

    @contract()
    async def test_only_exit_status_0_passes(self, yard: Yard) -> None:
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
    async def test_the_output_is_kept(self, yard: Yard) -> None:
        commands = (
            "echo out; echo err >&2; exit 1",
            r"printf 'a\377\000b'",
            "exec >&- 2>&-",
            "echo 1.0; false",
        )
        graded = await self.grade(yard, *(self.command(text) for text in commands))
        kept = [(each.score, each.output) for each in graded if isinstance(each, Verdict)]
        assert kept == [(0.0, "err\nout\n"), (1.0, "a\ufffd\ufffdb"), (1.0, ""), (0.0, "1.0\n")]

    @contract()
    async def test_commands_that_do_not_end_by_themselves_are_errors(self, yard: Yard) -> None:
        for text, told in (("sleep 600", "scorer_timeout_sec"), ("kill -SEGV $$", "signal 11")):
            (graded,) = await self.grade(yard, self.command(text), seconds=3.0)
            assert isinstance(graded, ScorerFailed), (text, graded)
            assert told in graded.message

    @contract()
    async def test_the_context_is_in_the_environment(self, yard: Yard) -> None:
        looks = f"{{ {BASH.looks_at_context.strip()}; }} | grep -q 1.0"
        assert await self.scores(yard, self.command(looks)) == [1.0]
