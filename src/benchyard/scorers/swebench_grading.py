"""Grading by the `swebench` package, an extra: in a worker, bounded in time and memory."""

import importlib.metadata
from dataclasses import dataclass, field

from benchyard.errors import ScorerFailed, WorkerFailed
from benchyard.hosts.dependencies import SWEBENCH
from benchyard.models.swe_bench import SweBenchSpec
from benchyard.workers.workers import Call, Limits

START = ">>>>> Start Test Output"
END = ">>>>> End Test Output"
EXIT_CODE = ">>>>> Test Exit Code"
_GRADED = "benchyard.scorers.swebench_child:graded"
_LIMITS = Limits(seconds=300, memory_bytes=4 * 1024**3, output_bytes=512 * 1024**2)


@dataclass(frozen=True)
class Grade:
    """What the package made of a log."""

    is_resolved: bool
    has_results: bool
    """Whether the log was one of tests that ran."""
    fail_to_pass: float = 0.0
    pass_to_pass: float = 0.0
    failed: tuple[str, ...] = field(default=())
    """Tests that should have passed: the first of them."""
    more_failed: int = 0
    has_tests: bool = True
    """Whether the log names any test at all."""
    reason: str = ""
    """What the package takes for a fault of the environment."""


def version() -> str:
    """The version of the package; raises ScorerFailed where it is not installed."""
    try:
        return importlib.metadata.version("swebench")
    except importlib.metadata.PackageNotFoundError as error:
        raise ScorerFailed(f"SWE-bench cannot be graded: {SWEBENCH.complaint}") from error


def script(text: str) -> str:
    """An evaluation script that ends with the status of its tests: what follows them changes nothing."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if END in line:
            return "\n".join([*lines[:number], "BENCHYARD_STATUS=$?", line, 'exit "$BENCHYARD_STATUS"', ""])
    raise ScorerFailed(f"the evaluation script has no line with {END!r}; import the scenario again")


async def grade(spec: SweBenchSpec, output: bytes, exit_status: int, call: Call) -> Grade:
    """Grade the output of a script, and its status; raises ScorerFailed where the package cannot."""
    parameters = {"spec": spec.model_dump(), "exit_status": exit_status}
    try:
        found = await call(_GRADED, output, parameters, _LIMITS)
    except WorkerFailed as error:
        if error.details.get("limit") in ("time", "memory"):
            # A log that takes too much to be graded is the doing of who wrote it.
            return Grade(is_resolved=False, has_results=False, reason=f"the log could not be graded: {error}")
        raise ScorerFailed(f"the package `swebench` could not grade the log: {error}") from error
    return Grade(**{**found, "failed": tuple(found["failed"])})
