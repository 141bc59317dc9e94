"""Grading by the `swebench` package, an extra: in a process of its own, bounded in time and memory."""

import asyncio
import importlib.metadata
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchyard.errors import ScorerFailed
from benchyard.models.swe_bench import SweBenchSpec
from benchyard.scorers import swebench_child

START = ">>>>> Start Test Output"
END = ">>>>> End Test Output"
EXIT_CODE = ">>>>> Test Exit Code"
_SECONDS = 300
_SHOWN = 300


@dataclass(frozen=True)
class Grade:
    """What the package made of a log."""

    is_resolved: bool
    has_results: bool
    """Whether the log was one of tests that ran."""
    fail_to_pass: float = 0.0
    pass_to_pass: float = 0.0
    failed: tuple[str, ...] = field(default=())
    """Tests that should have passed."""
    reason: str = ""
    """What the package takes for a fault of the environment."""


class _TooMuch(Exception):
    """A log that takes too much to be graded, which is the doing of who wrote it."""


def version() -> str:
    """The version of the package; raises ScorerFailed where it is not installed."""
    try:
        return importlib.metadata.version("swebench")
    except importlib.metadata.PackageNotFoundError as error:
        raise ScorerFailed(
            "SWE-bench is graded with the package `swebench`, which this server lacks: "
            "pip install 'benchyard[benchmarks]'"
        ) from error


def script(text: str) -> str:
    """An evaluation script that ends with the status of its tests: what follows them changes nothing."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if END in line:
            return "\n".join([*lines[:number], "BENCHYARD_STATUS=$?", line, 'exit "$BENCHYARD_STATUS"', ""])
    raise ScorerFailed(f"the evaluation script has no line with {END!r}; import the scenario again")


def log(output: bytes, exit_status: int) -> str:
    """The log of a script, with the status that the host saw in the place of any that was printed."""
    text = output.decode(errors="replace").replace(EXIT_CODE, ">>>>> Printed Exit Code")
    return f"{text}\n{EXIT_CODE}: {exit_status}\n"


async def grade(spec: SweBenchSpec, text: str) -> Grade:
    """Grade a log; raises ScorerFailed where the package cannot."""
    with tempfile.TemporaryDirectory(prefix="benchyard-swebench-") as name:
        files = Path(name) / "spec.json", Path(name) / "log.txt"
        files[0].write_text(spec.model_dump_json())
        await asyncio.to_thread(files[1].write_text, text, encoding="utf-8", errors="replace")
        try:
            found = await _reported(*files)
        except _TooMuch as error:
            return Grade(is_resolved=False, has_results=False, reason=str(error))
    status: dict[str, Any] = found.get("tests_status") or {}
    failed = [name for kind in ("FAIL_TO_PASS", "PASS_TO_PASS") for name in _failures(status, kind)]
    return Grade(
        is_resolved=found["resolved"] is True,
        has_results=bool(status),
        fail_to_pass=float(found.get("fail_to_pass", 0.0)),
        pass_to_pass=float(found.get("pass_to_pass", 0.0)),
        failed=tuple(failed),
        reason=str(found.get("infra_failure_reason", "")),
    )


def _failures(status: dict[str, Any], kind: str) -> list[str]:
    return [str(name) for name in status.get(kind, {}).get("failure", [])]


async def _reported(spec: Path, log_file: Path) -> dict[str, Any]:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-X", "utf8", swebench_child.__file__, spec, log_file),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            stdout, stderr = await child.communicate()
    except TimeoutError as error:
        raise _TooMuch(f"the log could not be graded in {_SECONDS} s") from error
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode != 0:
        if b"MemoryError" in stderr[-1000:]:
            raise _TooMuch("the log could not be graded in the memory that there is for it")
        said = stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"exit {child.returncode}"]
        raise ScorerFailed(f"the package `swebench` could not grade the log: {said[0][:_SHOWN]}")
    report: dict[str, Any] = json.loads(stdout)
    return report
