"""What grades items of the SWE-bench family: files in an attachment of their scenarios."""

import re
from typing import Annotated

from pydantic import StringConstraints

from benchyard.models.base import Model

SWE_BENCH_ATTACHMENT = "swe-bench"
"""The archive, with these files."""
SPEC = "spec.json"
EVAL_SCRIPT = "eval.sh"
"""Of SWE-bench: installs, brings the tests, runs them."""
RUN_SCRIPT, PARSER, TESTS_PATCH = "run_script.sh", "parser.py", "tests.patch"
"""Of SWE-Bench Pro: runs tests, reads what they printed, brings them."""

Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,64}$")]

_HEAD = re.compile(r"^diff --git a/.+ b/(.+)$", re.MULTILINE)


class SweBenchSpec(Model):
    """By what a log is graded, in the words of the package `swebench`."""

    instance_id: str
    repo: str
    version: str
    FAIL_TO_PASS: list[str]
    PASS_TO_PASS: list[str]
    log_parser: str
    eval_type: str = "pass_and_fail"


class SweBenchTests(Model):
    """What grades an item of SWE-bench."""

    spec: SweBenchSpec
    test_files: list[str]
    """That the tests are in: what an answer does to them is undone."""


class SweBenchProTests(Model):
    """What grades an item of SWE-Bench Pro."""

    base_commit: Commit
    fail_to_pass: list[str]
    pass_to_pass: list[str]
    tests_to_run: list[str]
    test_files: list[str]
    """That are as the solution has them when tests run."""
    restore: str
    """The command that brings them, where the repository has the solution's commit."""
    env_lines: tuple[str, ...] = ()
    """`ENV` lines of the Dockerfiles."""


def paths_in(patch: str) -> list[str]:
    """The paths that the heads of a diff name, in order."""
    return list(dict.fromkeys(_HEAD.findall(patch)))
