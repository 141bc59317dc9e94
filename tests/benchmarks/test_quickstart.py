"""What comes with us: complete, checkable, and over everything there is."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from benchyard.benchmarks import builtin_benchmarks
from benchyard.benchmarks.files import benchmark_file, scenario_draft
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.benchmarks.files.scenario_file import TEXTS
from benchyard.models.scoring import references
from benchyard.scorers import catalog
from benchyard.scorers.base import ScoringContext


def drafts() -> list[ScenarioDraft]:
    (folder,) = builtin_benchmarks.folders()
    return [
        each for each in benchmark_file.read_benchmark(folder).scenarios if isinstance(each, ScenarioDraft)
    ]


DRAFTS = drafts()


def test_there_are_a_dozen_over_all_types_and_modes() -> None:
    assert len(DRAFTS) == 12
    functions = [
        each for draft in DRAFTS for each in draft.request.scoring_contract.scoring_function_parameters
    ]
    assert {each.scorer["type"] for each in functions} == {*TEXTS, "custom_scorer"}
    assert {draft.request.scoring_isolation for draft in DRAFTS} == {"system", "answer", "live"}


@pytest.mark.parametrize(
    "draft",
    [*DRAFTS, scenario_draft.read_scenario(builtin_benchmarks.TEMPLATE)],
    ids=lambda each: each.request.name,
)
def test_each_is_complete(draft: ScenarioDraft) -> None:
    request = draft.request
    assert request.reference_output
    assert draft.origin.kind is None
    assert len(request.input_context.problem_statement) > 100
    for function in request.scoring_contract.scoring_function_parameters:
        catalog.parse(function.scorer["type"], function.scorer, ScoringContext())
    # A diff that is reversed, and one that is not, are among them; each is taken for what it is.
    is_patch = draft.folder.has("reference.patch")
    assert references.is_diff(request.reference_output) is is_patch


def test_code_that_is_graded_runs_only_where_it_can_gain_nothing() -> None:
    """Whoever starts a program of the answer grades as root, and starts it as the user whose work it is."""
    starts = re.compile(r"subprocess\.run\(")
    for draft in DRAFTS:
        for function in draft.request.scoring_contract.scoring_function_parameters:
            text = repr(function.scorer)
            if starts.search(text):
                assert function.scorer["user"] == "root"
                assert len(starts.findall(text)) == len(re.findall(r"\[GRADED, ", text)) == 1
                # No shell of the same user stands between, where there is but one user.
                assert "exec python3" in text or function.scorer["type"] == "python_script_scorer"
                assert "prctl(4, 0" in text


GRADE = "watch-a-folder/scorers/grade.sh"
SLOW_LS = """#!/bin/bash
for _ in $(seq 100); do
    for each; do [ -e "$each" ] || exec /bin/ls "$@"; done
    sleep 0.02
done
exec /bin/ls "$@"
"""
WATCHES = """
until [ -e stop ]; do
    for file in inbox/*.txt; do
        [ -f "$file" ] || continue
        name=$(basename "$file")
        tr a-z A-Z < "$file" > "outbox/.$name" && mv "outbox/.$name" "outbox/$name" && rm "$file"
        sleep 1
    done
    sleep 0.05
done
"""


def test_files_that_are_handled_one_after_the_other_are_waited_for(tmp_path: Path) -> None:
    """Of two files the first one may be gone between a look at the names and a look at the files."""
    (folder,) = builtin_benchmarks.folders()
    for name in ("inbox", "outbox", "bin"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin/ls").write_text(SLOW_LS)
    (tmp_path / "bin/ls").chmod(0o755)
    watcher = subprocess.Popen(["bash", "-c", WATCHES], cwd=tmp_path)
    try:
        graded = subprocess.run(
            ["bash", str(folder / GRADE)],
            cwd=tmp_path,
            env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "BENCHYARD_GRADED": "/usr/bin/env"},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    finally:
        (tmp_path / "stop").touch()
        watcher.wait(60)
    assert graded.stdout == "2 of 2 files were handled\n1.0\n"


def test_the_digest_tells_folders_apart() -> None:
    (folder,) = builtin_benchmarks.folders()
    assert builtin_benchmarks.digest(folder) == builtin_benchmarks.digest(folder)
    assert builtin_benchmarks.digest(folder) != builtin_benchmarks.digest(folder / "fix-a-bug")
