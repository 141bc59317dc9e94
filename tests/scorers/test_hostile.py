"""Answers, reports and patches that are made to take for ever: no callback of the loop feels them."""

import asyncio
import gzip
import json
import tarfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from benchyard.errors import ScorerFailed, UsageError
from benchyard.models.scoring.attachments import PackedFile, pack_files
from benchyard.scorers import base, catalog
from benchyard.scorers.base import AS_USUAL, ProgramOptions, Room, RoomResult, ScoringContext
from benchyard.scorers.polyglot import ExerciseAnswer, KnownTests
from benchyard.testing.loop_probe import loop_probe
from benchyard.workers.workers import WorkerLimits, Workers

MEBIBYTE = 1024**2
EXPECTED: dict[str, dict[str, Any]] = {
    "aime_scorer": {"answer": 73},
    "gpqa_scorer": {"letter": "B"},
    "arc_scorer": {"task_id": "t", "outputs": [[[1, 2], [3, 4]]]},
    "replication_scorer": {"values": {"t": 5.0}, "tolerances": {"t": 0.5}},
}


def answers() -> dict[str, bytes]:
    """Answers that are made to take for ever, by what they consist of."""
    return {
        "commas": b"1" + b",111" * 15_000 + b".5",
        "circles": b"\\boxed{^" + b" " * 60_000 + b"}",
        "boxes": b"\\boxed{" * 8_000,
        "lines": b"answer:" * 8_000,
        "digits": b"9" * 60_000,
        "styles": b"\\boxed{" + b"\\text{" * 9_000 + b"}",
        "fences": b"```a\n" * 200_000,
        "blank lines": b"```\n" + b"\n" * 1_000_000 + b"\n```\n",
        "objects": b"[" + b"{}," * 340_000,
        "braces": b"{" * MEBIBYTE,
        "pairs": b"{" + b"{}" * 500_000,
        "depth": b"[" * 500_000 + b"]" * 500_000,
        "operators": b"-" * 500_000 + b"1",
        "sums": b"+".join([b"1"] * 500_000),
        "number": b"1" * 900_000,
    }


class PaperRoom(Room):
    """A room of files and outputs that are given, in which nothing runs."""

    working_directory = "/work"

    def __init__(self, files: Mapping[str, bytes], *outputs: RoomResult) -> None:
        self._files = files
        self._outputs = list(outputs)

    async def put(self, path: str, content: bytes, *, mode: int = 0o644) -> str:
        return path

    async def keep(self, name: str, content: bytes) -> str:
        return name

    async def clear(self, folder: str, user: str | None = None) -> None:
        return None

    async def fetch(self, path: str, limit: int) -> bytes | None:
        content = self._files.get(path)
        return None if content is None else content[:limit]

    async def run(self, argv: Sequence[str], how: ProgramOptions = AS_USUAL) -> RoomResult:
        return self._outputs.pop(0)


def said(stdout: bytes) -> RoomResult:
    return RoomResult(0, stdout, b"")


def live(scenario: Callable[[Workers], Awaitable[None]]) -> None:
    """Live through a scenario in which no callback takes longer than one may."""

    async def probed() -> None:
        async with Workers() as workers:
            # The process that starts workers is there before.
            assert await workers.call("json:load", b"[]") == []
            with loop_probe() as probe:
                await scenario(workers)
            assert probe.slow == []

    asyncio.run(probed())


@pytest.mark.parametrize("type", EXPECTED)
def test_no_answer_is_felt_while_it_is_graded(type: str) -> None:
    async def scenario(workers: Workers) -> None:
        for name, answer in answers().items():
            fields = {"path": "answer", "expected": EXPECTED[type]}
            scorer = catalog.parse(type, fields, ScoringContext(call=workers.call))
            verdict = await scorer.score(PaperRoom({"answer": answer}))
            assert verdict.score == 0.0, name

    live(scenario)


def test_no_answer_to_bigcodebench_is_felt_while_its_job_is_made() -> None:
    item = {"code_prompt": "def f():", "test": "x = 1", "entry_point": "f", "time_limit_sec": 1.0}
    function = "benchyard.scorers.standalone.parsers:make_bigcodebench_input"

    async def scenario(workers: Workers) -> None:
        for answer in answers().values():
            made = await workers.call(
                function, answer, {"item": item}, WorkerLimits(output_bytes=16 * MEBIBYTE)
            )
            assert made.startswith(b'{"code": "def f():\\n    pass\\n')

    live(scenario)


@pytest.mark.parametrize(
    ("function", "content", "parameters", "expected"),
    [
        ("parsers:bigcodebench_result", lambda: b"{}," * MEBIBYTE, {}, None),
        ("parsers:bigcodebench_result", lambda: b"\n" * 4 * MEBIBYTE, {}, None),
        (
            "parsers:bigcodebench_result",
            lambda: json.dumps({"passed": False, "bad": [["t", "x" * 4095]] * 1_000}).encode(),
            {},
            {"passed": False, "good": 0, "skipped": 0, "bad": [["t", "x" * 4095]] * 6, "reason": None},
        ),
        ("parsers:says", lambda: b"= 1 a, " * 150_000, {"pattern": r"^=+ (?:\d+ \w+, )*\d+ passed"}, False),
        ("parsers:report_summary", lambda: b'{"results":' + b"[" * MEBIBYTE, {}, {}),
        ("parsers:report_summary", lambda: b"{}," * MEBIBYTE, {}, {}),
        (
            "parsers:changed_paths",
            lambda: b"1\t1\tconftest.py\0" * 250_000,
            {"flagged": [], "flagged_names": ["conftest.py"]},
            {"total": 250_000, "flagged": ["conftest.py"] * 200},
        ),
        (
            "swe_pro_results:graded",
            lambda: json.dumps({"tests": [{"name": "a", "status": "PASSED"}] * 100_000}).encode(),
            {"spec": {"fail_to_pass": ["a"], "pass_to_pass": ["b"]}},
            {
                "rewards": {"resolved": 0.0, "fail_to_pass": 1.0, "pass_to_pass": 0.0},
                "missing": ["b"],
                "more": 0,
            },
        ),
        ("swe_pro_results:graded", lambda: b"[" * 4 * MEBIBYTE, {"spec": {}}, None),
    ],
)
def test_no_output_is_felt_while_it_is_parsed(
    function: str, content: Callable[[], bytes], parameters: dict[str, Any], expected: Any
) -> None:
    async def scenario(workers: Workers) -> None:
        found = await workers.call(f"benchyard.scorers.standalone.{function}", content(), parameters)
        assert found == expected

    live(scenario)


def test_no_patch_is_felt_while_its_binary_parts_are_taken_out() -> None:
    patch = b"diff --git a b\nBinary files " + b" differ" * 500_000 + b"x\n" + b"diff --git a b\n" * 200_000

    async def scenario(workers: Workers) -> None:
        limits = WorkerLimits(output_bytes=32 * MEBIBYTE)
        found = await workers.call("benchyard.scorers.standalone.swe_pro_results:text_of", patch, {}, limits)
        assert found == patch

    live(scenario)


def test_the_report_of_tests_in_harbors_form_is_read_in_workers() -> None:
    report = b'{"results": {"summary": {"tests": 2, "passed": 1, "failed": 1}, "tests": ['
    files = {"/logs/verifier/ctrf.json": report + b"{}," * MEBIBYTE + b"{}]}}"}

    async def scenario(workers: Workers) -> None:
        scorer: Any = catalog.parse("harbor_scorer", {"script": "true"}, ScoringContext(call=workers.call))
        assert await scorer._report(PaperRoom(files)) == {"tests": "2", "passed": "1", "failed": "1"}

    live(scenario)


def test_output_of_exercises_is_searched_in_workers() -> None:
    async def scenario(workers: Workers) -> None:
        scorer: Any = catalog.parse("polyglot_scorer", EXERCISE, ScoringContext(call=workers.call))
        for output in (
            b"=" * MEBIBYTE,
            b"== 1 a, " * 130_000,
            b"1 passed in " * 80_000,
            b"collected " * 100_000,
            b"=" * MEBIBYTE + b" 1 skipped",
        ):
            verdict = await scorer._verdict(
                said(output), "/tmp/polyglot", ExerciseAnswer({}), KnownTests(), PaperRoom({})
            )
            assert verdict.score == 0.0

    live(scenario)


EXERCISE = {"language": "python", "exercise": "two-fer", "solution": ["two_fer.py"]}


def attached(files: Mapping[str, bytes]) -> Callable[[str], Awaitable[bytes]]:
    archive = pack_files({path: PackedFile(content) for path, content in files.items()})

    async def content(_: str) -> bytes:
        return archive

    return content


def test_exercises_and_the_files_of_their_answers_are_looked_at_in_workers() -> None:
    """Many files, large ones, and names of all kinds, in the exercise and in the answer."""
    large = b"xtest(skip) @Disabled() \n" * 100_000
    exercise = {f"more/{at}.png": b"x" for at in range(1_500)}
    files = {**exercise, "two-fer.spec.js": large}
    rows = [
        *(f"f 1 more/{at}.png" for at in range(1_500)),
        *(f"f 7 a/{at}-{'x' * 20}" for at in range(25_000)),
    ]
    listing = "\0".join(rows).encode()
    fields = {**EXERCISE, "language": "javascript", "solution": ["two-fer.js"], "tests": ["two-fer.spec.js"]}
    exercise_of = attached(files)

    async def scenario(workers: Workers) -> None:
        scorer: Any = catalog.parse(
            "polyglot_scorer", fields, ScoringContext(attached=exercise_of, call=workers.call)
        )
        room = PaperRoom(exercise, said(b""), said(listing), said(b"nothing"))
        verdict = await scorer.score(room)
        assert verdict.score == 0.0
        assert verdict.facts["left_out"].endswith("and 24980 more")

    live(scenario)


def test_archives_that_take_long_to_read_are_not_felt() -> None:
    """A header in which a number is looked for from each of its digits on."""
    digits = b"1" * 20_000
    head = tarfile.TarInfo("pax")
    head.type, head.size = tarfile.XHDTYPE, len(digits)
    padded = digits + bytes(-len(digits) % 512)
    archive = gzip.compress(head.tobuf(tarfile.USTAR_FORMAT) + padded + bytes(1024))

    async def hostile(_: str) -> bytes:
        return archive

    async def scenario(workers: Workers) -> None:
        for type, fields in (("polyglot_scorer", EXERCISE), ("harbor_scorer", {"script": "true"})):
            context = ScoringContext(attached=hostile, call=workers.call)
            scorer = catalog.parse(type, fields, context)
            with pytest.raises(ScorerFailed):
                await scorer.score(PaperRoom({}, said(b""), said(b"")))

    live(scenario)


@pytest.mark.parametrize("type", EXPECTED)
def test_size_of_expected_answers_is_limited(type: str) -> None:
    """It is checked by the loop whenever a scorer is made, so that it has to be."""

    async def scenario(workers: Workers) -> None:
        many = {str(at): [[at % 10]] for at in range(200_000)}
        for expected in (
            {**EXPECTED[type], "more": many},
            {**EXPECTED[type], "outputs": [[[1] * 30] * 30] * 100, "letter": "B" * MEBIBYTE},
            {**EXPECTED[type], "values": many, "tolerances": many, "answer": "7" * MEBIBYTE},
        ):
            with pytest.raises(UsageError, match="64 KiB"):
                catalog.parse(
                    type, {"path": "answer", "expected": expected}, ScoringContext(call=workers.call)
                )

    live(scenario)


@pytest.mark.parametrize("params", [{}, {"more": "x" * 60_000}])
def test_scorers_get_a_long_problem_through_workers(params: dict[str, Any]) -> None:
    """A megabyte of it, in which many letters are written in several."""
    facts = {"problem_statement": 'é\n"\x01' * 260_000, "reference_output": "\ud800" * 500_000}

    async def scenario(workers: Workers) -> None:
        variables = await base.scorer_environment(
            PaperRoom({}), ScoringContext(facts, call=workers.call), params
        )
        told = json.loads(variables["RL_SCORER_CONTEXT"])
        assert told["benchyard"] == {"truncated": True}

    live(scenario)


@pytest.mark.parametrize("at_most", [40_000, 200_000])
def test_files_that_grade_swe_bench_are_read_in_workers(at_most: int) -> None:
    names = [f"tests/test_{at}.py::test_it" for at in range(at_most)]
    spec = {"spec": {"PASS_TO_PASS": names}, "base_commit": "a" * 40, "pass_to_pass": names}
    files = {"spec.json": json.dumps(spec).encode(), "eval.sh": b"", "run_script.sh": b""}
    archive_of = attached({**files, "parser.py": b"", "tests.patch": b""})

    async def scenario(workers: Workers) -> None:
        for type, fields in (("swe_bench_scorer", {"base_commit": "a" * 40}), ("swe_bench_pro_scorer", {})):
            scorer: Any = catalog.parse(type, fields, ScoringContext(attached=archive_of, call=workers.call))
            with pytest.raises(ScorerFailed):
                await scorer._load_tests()

    live(scenario)
