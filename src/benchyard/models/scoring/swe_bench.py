"""Grading data of the SWE-bench family: files in an attachment of their scenarios."""

import re
from typing import Annotated

from pydantic import StringConstraints

from benchyard.models.base import Model

SWE_BENCH_ATTACHMENT = "swe-bench"
"""The archive with these files."""
SPEC = "spec.json"
EVAL_SCRIPT = "eval.sh"
"""Script of SWE-bench: installs, adds the tests, runs them."""
RUN_SCRIPT, PARSER, TESTS_PATCH = "run_script.sh", "parser.py", "tests.patch"
"""Files of SWE-Bench Pro: the script that runs tests, the parser of its output, the patch with the tests."""

Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,64}$")]

_HEAD = re.compile(r"^diff --git a/.+ b/(.+)$", re.MULTILINE)


class SweBenchSpec(Model):
    """The data for grading a log, in the words of the package `swebench`."""

    instance_id: str
    repo: str
    version: str
    FAIL_TO_PASS: list[str]
    PASS_TO_PASS: list[str]
    log_parser: str
    eval_type: str = "pass_and_fail"


class SweBenchTests(Model):
    """The tests of an item of SWE-bench."""

    spec: SweBenchSpec
    test_files: list[str]
    """Files of the tests: an answer's changes to them are undone."""


class SweBenchProTests(Model):
    """The tests of an item of SWE-Bench Pro."""

    base_commit: Commit
    fail_to_pass: list[str]
    pass_to_pass: list[str]
    tests_to_run: list[str]
    test_files: list[str]
    """Files that have the solution's content when tests run."""
    restore: str
    """The command that restores them, if the repository has the solution's commit."""
    env_lines: tuple[str, ...] = ()
    """`ENV` lines of the Dockerfiles."""


def paths_in(patch: str) -> list[str]:
    """Return the paths in the headers of a diff, in order."""
    return list(dict.fromkeys(_HEAD.findall(patch)))
