"""Rows of SWE-bench Verified and SWE-Bench Pro in every form that they are published in."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchyard.benchmarks import catalog
from benchyard.benchmarks.base import BrokenItem, ImportOptions
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.benchmarks.swe_bench import evaluation_scripts, items
from benchyard.errors import UsageError
from benchyard.models.scoring.attachments import unpack_files
from benchyard.models.scoring.swe_bench import EVAL_SCRIPT, SPEC, SWE_BENCH_ATTACHMENT, SweBenchTests
from tests import parity
from tests.benchmarks.samples.finding import sample
from tests.benchmarks.swe_repository import Repository, row

NEWER = ("eval_script", "log_parser", "eval_type", "image")
TEST_PATCH = "diff --git a/tests/test_a.py b/tests/test_a.py\n--- a/tests/test_a.py\n+++ b/tests/test_a.py\n"
REPOSITORY = Repository("a" * 40, "b" * 40, "diff --git a/a.py b/a.py\n", TEST_PATCH)


def read(name: str, data: Path, work: Path, variant: str | None = None) -> list[ScenarioDraft | BrokenItem]:
    return list(catalog.load(name).scenarios(data, ImportOptions(work, variant)))


def only(name: str, rows: list[Mapping[str, Any]], folder: Path) -> ScenarioDraft | BrokenItem:
    (folder / "rows.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    (found,) = read(name, folder / "rows.jsonl", folder / "work")
    return found


def graded(draft: ScenarioDraft | BrokenItem) -> tuple[str, SweBenchTests]:
    assert isinstance(draft, ScenarioDraft), draft
    files = dict(unpack_files(draft.attachments[SWE_BENCH_ATTACHMENT]))
    return files[EVAL_SCRIPT].content.decode(), SweBenchTests.model_validate_json(files[SPEC].content)


def older(repo: str, version: str) -> dict[str, Any]:
    """A row as the hub had it for years: thirteen columns, lists as text."""
    whole = row(REPOSITORY, repo=repo, version=version)
    lists = ("FAIL_TO_PASS", "PASS_TO_PASS")
    return {
        key: json.dumps(value) if key in lists else value for key, value in whole.items() if key not in NEWER
    }


def test_the_newer_form(tmp_path: Path) -> None:
    draft = only("swe-bench-verified", [row(REPOSITORY)], tmp_path)
    script, tests = graded(draft)
    assert isinstance(draft, ScenarioDraft)
    assert script == row(REPOSITORY)["eval_script"]
    assert tests.test_files == ["tests/test_a.py"]
    assert draft.request.reference_output == REPOSITORY.patch
    assert draft.origin.prebuilt == row(REPOSITORY)["image"]
    assert draft.folder.text("Dockerfile") == f"FROM {draft.origin.prebuilt}\n"


@pytest.mark.parametrize(
    ("repo", "version", "parser", "lines"),
    [
        (
            "pallets/flask",
            "2.3",
            "parse_log_flask",
            ["python -m pip install -e .", "pytest -rA tests/test_a.py"],
        ),
        ("psf/requests", "2.4", "parse_log_requests", ["python -m pip install ."]),
        (
            "django/django",
            "2.2",
            "parse_log_django",
            [
                "python setup.py install",
                "export PYTHONIOENCODING=utf8",
                "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1 test_a",
            ],
        ),
        ("django/django", "1.9", "parse_log_django", ["./tests/runtests.py --verbosity 2 test_a"]),
        ("mwaskom/seaborn", "0.11", "parse_log_seaborn", ["python -m pip install -e ."]),
        ("mwaskom/seaborn", "0.12", "parse_log_seaborn", ["python -m pip install -e .[dev]"]),
        ("sphinx-doc/sphinx", "5.0", "parse_log_sphinx", ["tox --current-env -epy39 -v -- tests/test_a.py"]),
    ],
)
def test_the_older_form_gets_its_script(
    repo: str, version: str, parser: str, lines: list[str], tmp_path: Path
) -> None:
    draft = only("swe-bench-verified", [older(repo, version)], tmp_path)
    script, tests = graded(draft)
    assert isinstance(draft, ScenarioDraft)
    assert tests.spec.log_parser == parser
    assert tests.spec.FAIL_TO_PASS == ["tests/test_words.py::test_initials_of_all"]
    assert set(lines) <= set(script.splitlines())
    assert draft.origin.prebuilt == "swebench/sweb.eval.x86_64.tiny_1776_words-1:latest"
    assert (draft.request.metadata or {})["eval_script"]


def test_a_folder_of_the_task_repository(tmp_path: Path) -> None:
    whole = row(REPOSITORY)
    task = tmp_path / "copy/tasks/tiny__words-1"
    task.mkdir(parents=True)
    told = {key: whole[key] for key in ("repo", "base_commit", "version", "log_parser", "eval_type", "image")}
    named = {**told, "instance_id": "tiny__words-1", "datasets": ["SWE-bench/SWE-bench_Verified"]}
    (task / "task.yaml").write_text(json.dumps(named))
    (task / "tests.json").write_text(
        json.dumps({key: whole[key] for key in ("FAIL_TO_PASS", "PASS_TO_PASS")})
    )
    (task / "problem_statement.md").write_text(whole["problem_statement"])
    (task / "gold.patch").write_text(whole["patch"])
    (task / "test.patch").write_text(whole["test_patch"])
    (task / "eval.sh").write_text(whole["eval_script"])
    (task / "Dockerfile").write_text("FROM ubuntu:jammy\n")
    other = tmp_path / "copy/tasks/tiny__words-2"
    other.mkdir()
    (other / "task.yaml").write_text(json.dumps({**named, "datasets": ["SWE-bench/SWE-bench"]}))
    bad = tmp_path / "copy/tasks/tiny__words-3"
    bad.mkdir()
    (bad / "task.yaml").write_text("a: [")
    draft, broken = read("swe-bench-verified", tmp_path / "copy", tmp_path / "work")
    assert graded(draft)[0] == whole["eval_script"]
    assert isinstance(draft, ScenarioDraft)
    assert draft.folder.text("Dockerfile") == "FROM ubuntu:jammy\n"
    assert isinstance(broken, BrokenItem)
    assert "tiny__words-3" in broken.reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"base_commit": "--upload-pack=x"}, "base_commit"),
        ({"instance_id": "../up"}, "instance_id"),
        ({"FAIL_TO_PASS": "none"}, "FAIL_TO_PASS"),
        ({"patch": ""}, "patch"),
        ({"patch": "x" * (items.MOST_TEXT + 1)}, "larger"),
        ({"eval_script": None, "log_parser": None}, "eval_script"),
        ({"problem_statement": 7}, "problem_statement"),
    ],
)
def test_a_bad_row_is_reported_and_the_others_go_on(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    (tmp_path / "rows.jsonl").write_text(
        json.dumps(row(REPOSITORY, **{"instance_id": "tiny__words-2", **changes}))
        + "\n"
        + json.dumps(row(REPOSITORY))
    )
    broken, fine = read("swe-bench-verified", tmp_path / "rows.jsonl", tmp_path / "work")
    assert isinstance(broken, BrokenItem)
    assert reason in broken.reason
    assert isinstance(fine, ScenarioDraft)


@pytest.mark.parametrize("name", ["swe-bench-verified", "swe-bench-pro"])
def test_data_that_is_not_there_is_reported(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no rows"):
        read(name, tmp_path, tmp_path / "work")
    (tmp_path / "rows.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(UsageError, match="instance_id"):
        read(name, tmp_path, tmp_path / "work")


@pytest.mark.parametrize(
    ("name", "place", "count", "variant"),
    [
        ("swe-bench-verified", "swe-bench-verified/verified-sample.jsonl", 28, None),
        ("swe-bench-verified", "swe-bench-verified/verified-sample.hub-form.jsonl", 4, None),
        ("swe-bench-verified", "swe-bench-verified", 28, None),
        ("swe-bench-pro", "swe-bench-pro", 11, None),
        ("swe-bench-pro", "swe-bench-pro", 11, "dockerfiles"),
    ],
)
def test_real_rows_are_all_read(
    name: str, place: str, count: int, variant: str | None, tmp_path: Path
) -> None:
    found = read(name, sample(place), tmp_path, variant)
    assert [each for each in found if isinstance(each, BrokenItem)] == []
    assert len(found) == count
    why = "its official image is in a registry, and what it would be built of on GitHub"
    left = {each.request.name: why for each in found if isinstance(each, ScenarioDraft)}
    parity.note(name, [], count, left=left if parity.IS_WHOLE else {})


def test_scripts_are_made_as_the_real_ones_are() -> None:
    """Line for line, but for lines that are empty."""
    for real in items.read_rows(sample("swe-bench-verified/verified-sample.jsonl")):
        tests = evaluation_scripts.Tests(real["base_commit"], real["test_patch"])
        made = evaluation_scripts.script(real["repo"], real["version"], tests)
        assert _said(made) == _said(real["eval_script"]), real["instance_id"]
        assert evaluation_scripts.parser(real["repo"]) == real["log_parser"]


@pytest.mark.parametrize("item", ["astropy__astropy-8707", "astropy__astropy-8872"])
def test_two_items_have_an_older_pytest(item: str) -> None:
    patch = "diff --git a/astropy/a/tests/test_a.py b/astropy/a/tests/test_a.py\n"
    made = evaluation_scripts.script(
        "astropy/astropy", "3.1", evaluation_scripts.Tests("0" * 40, patch, item)
    )
    lines = made.splitlines()
    start = lines.index(": '>>>>> Start Test Output'")
    assert lines[start - 2 : start + 2] == [
        "EOF_114329324912",
        "python -m pip install -q 'pytest<7.2'",
        ": '>>>>> Start Test Output'",
        "pytest -rA astropy/a/tests/test_a.py",
    ]


def test_a_test_command_without_files_ends_where_it_ends() -> None:
    patch = "diff --git a/tests/validators/valid_urls.txt b/tests/validators/valid_urls.txt\n"
    made = evaluation_scripts.script("django/django", "2.2", evaluation_scripts.Tests("0" * 40, patch))
    assert "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1" in made.splitlines()


@pytest.mark.parametrize(
    ("repo", "test", "needs"),
    [
        ("psf/requests", "test_requests.py::RequestsTestCase::test_HTTP_200_OK_GET", True),
        ("psf/requests", "tests/test_requests.py::TestTimeout::test_connect_timeout[timeout0]", True),
        ("psf/requests", "tests/test_utils.py::TestSuperLen::test_string", False),
        ("sphinx-doc/sphinx", "tests/test_build_latex.py::test_latex_images", True),
        ("sphinx-doc/sphinx", "tests/test_build_linkcheck.py::test_defaults", True),
        ("sphinx-doc/sphinx", "tests/test_build_linkcheck.py::test_follows_redirects_on_GET", False),
        ("pallets/flask", "tests/test_build_linkcheck.py::test_defaults", False),
    ],
)
def test_items_whose_tests_ask_the_internet_are_labelled(
    repo: str, test: str, needs: bool, tmp_path: Path
) -> None:
    draft = only("swe-bench-verified", [row(REPOSITORY, repo=repo, PASS_TO_PASS=[test])], tmp_path)
    assert isinstance(draft, ScenarioDraft)
    told = (draft.request.metadata or {}).get("needs")
    assert told == ("a network for its scorer" if needs else None)


def _said(script: str) -> list[str]:
    return [line for line in script.splitlines() if line.strip()]
