"""SWE-Bench Pro: a tiny repository in its form, worked on and graded; what came later is not in its image."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchyard.benchmarks import catalog, swe_bench_pro
from benchyard.benchmarks.base import BrokenItem, ImportOptions
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.client import Client, Server
from benchyard.client.benchmark_files import benchmark_import
from benchyard.client.benchmark_files.benchmark_import import BenchmarkImport
from benchyard.testing.server import RunningServer
from tests.benchmarks import swe_repository
from tests.benchmarks.executing import both, exported_again
from tests.benchmarks.swe_repository import FIXED, Repository, graded

NAME = "swe-bench-pro"
PLACE = "/app"
RUN = """#!/bin/bash
set -e
echo "flavour: $FLAVOUR, $TASTE" >&2
IFS=',' read -r -a FILES <<< "$1"
python3 /opt/tiny/run.py "${FILES[@]}" || true
"""
PARSER = """import json, sys

print("said on the way")
with open(sys.argv[1]) as out, open(sys.argv[2]) as err:
    lines, said = out.read().splitlines(), err.read()
assert "flavour: sweet, very" in said, said
found = [line.split() for line in lines if line.startswith(("PASSED ", "FAILED "))]
tests = [{"name": words[1], "status": words[0]} for words in found]
with open(sys.argv[3], "w") as file:
    json.dump({"tests": tests}, file, indent=2)
"""


def row(repository: Repository, **changes: Any) -> dict[str, Any]:
    """The row of the tiny change, in the form of the samples."""
    return {
        "instance_id": f"instance_tiny__words-{repository.solution}-vnan",
        "repo": "tiny/words",
        "base_commit": repository.base,
        "patch": repository.patch,
        "test_patch": repository.test_patch,
        "problem_statement": swe_repository.ISSUE,
        "requirements": "- all words count",
        "interface": "No new interfaces.",
        "repo_language": "python",
        "fail_to_pass": ["tests/test_words.py::test_initials_of_all"],
        "pass_to_pass": ["tests/test_words.py::test_count"],
        "issue_specificity": '["minor_bug"]',
        "issue_categories": ["text_knowledge"],
        "before_repo_set_cmd": f"git reset --hard {repository.base}\ngit clean -fd\n"
        f"git checkout {repository.base}\ngit checkout {repository.solution} -- tests/test_words.py",
        "selected_test_files_to_run": ["tests/test_words.py"],
        "run_script": RUN,
        "parser": PARSER,
        "base_dockerfile": "FROM scratch\nENV FLAVOUR=sweet\n",
        "instance_dockerfile": "FROM base_tiny\nENV TASTE very\n",
        "dockerhub_tag": "tiny.words",
        **changes,
    }


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return swe_repository.made(tmp_path_factory.mktemp("tiny") / "repository")


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[Client]:
    with Client(Server(server.url, server.key)) as opened:
        yield opened


@pytest.fixture(scope="module")
def scenario(client: Client, repository: Repository, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The scenario of the tiny change, imported as anybody would."""
    root = tmp_path_factory.mktemp("image") / "root"
    name = swe_repository.image(client, root, PLACE, with_solution=True)
    client.images.set_alias(f"{swe_bench_pro.REGISTRY}:tiny.words", name)
    data = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    data.write_text(json.dumps(row(repository)) + "\n")
    made = benchmark_import.import_benchmark(client, BenchmarkImport(NAME, name="tiny-pro", local=data))
    assert made.broken == []
    return made.scenarios[0].id or ""


def test_the_solution_resolves_it_and_is_not_in_the_history(
    client: Client, scenario: str, repository: Repository
) -> None:
    gone = (
        f"git cat-file -e {repository.base} && ! git cat-file -e {repository.solution} && test -e built.txt"
    )
    command = f"set -e\n{gone}\ngit apply <<'END_OF_DIFF'\n{repository.patch}END_OF_DIFF\n"
    result = graded(client, scenario, command, PLACE)
    assert result.score == 1.0, result
    assert result.rewards == {"resolved": 1.0, "fail_to_pass": 1.0, "pass_to_pass": 1.0}
    assert result.facts["tests_from"] == "the patch of the tests"


def test_an_export_of_it_says_the_same(client: Client, scenario: str, tmp_path: Path) -> None:
    (made,) = [
        benchmark for benchmark in client.benchmarks.list(name="tiny-pro") if benchmark.name == "tiny-pro"
    ]
    oracle, nop = both(client, exported_again(client, made.id, tmp_path / "tasks"))
    assert list(oracle.values()) == [1.0]
    assert list(nop.values()) == [0.0]


def test_doing_nothing_is_distinguished(client: Client, scenario: str) -> None:
    result = graded(client, scenario, "true", PLACE)
    assert (result.score, result.facts["patch"]) == (0.0, "empty"), result


def test_tests_of_the_agent_and_files_of_results_do_not_count(client: Client, scenario: str) -> None:
    """Nor does what lies where an output would, nor binary parts."""
    command = """
        printf 'def test_initials_of_all():\\n    pass\\n' > tests/test_words.py
        mkdir -p /workspace; echo '{"tests": []}' > /workspace/output.json
        printf 'a\\0b' > picture.png
        """
    result = graded(client, scenario, command, PLACE)
    assert result.rewards == {"resolved": 0.0, "fail_to_pass": 0.0, "pass_to_pass": 1.0}, result
    assert result.facts["flagged"] == "tests/test_words.py"
    assert result.facts["binary_parts"] == "left out"


def test_an_answer_that_keeps_tests_from_running_counts_0(client: Client, scenario: str) -> None:
    command = "printf 'import os\\nos._exit(127)\\n' > conftest.py"
    result = graded(client, scenario, command, PLACE)
    assert (result.state, result.cause, result.score) == ("complete", "answer", 0.0), result
    assert "the tests gave no result" in str(result.reason)


def test_an_answer_that_prints_results_of_its_own_is_read_as_printed(client: Client, scenario: str) -> None:
    """One test that should pass is missing: it is not enough that others do."""
    text = FIXED.replace("len(text.split())", "0")
    result = graded(client, scenario, f"cat > words.py <<'END'\n{text}END\n", PLACE)
    assert result.rewards == {"resolved": 0.0, "fail_to_pass": 1.0, "pass_to_pass": 0.0}, result


def read(data: Path, work: Path, variant: str | None = None) -> list[ScenarioDraft | BrokenItem]:
    return list(catalog.load(NAME).scenarios(data, ImportOptions(work, variant)))


def test_rows_of_the_hub_take_their_scripts_from_beside_them(repository: Repository, tmp_path: Path) -> None:
    """There lists are the text of lists of Python, and scripts lie in the authors' repository."""
    whole = row(repository)
    names = ("fail_to_pass", "pass_to_pass", "selected_test_files_to_run", "issue_categories")
    scripts = ("run_script", "parser", "base_dockerfile", "instance_dockerfile", "dockerhub_tag")
    hub = {key: str(value) if key in names else value for key, value in whole.items() if key not in scripts}
    data = tmp_path / "SWE-bench_Pro-os"
    (data / "data").mkdir(parents=True)
    (data / "data/test.jsonl").write_text(json.dumps(hub) + "\n")
    (broken,) = read(data, tmp_path / "one")
    assert isinstance(broken, BrokenItem)
    assert "scaleapi/SWE-bench_Pro-os" in broken.reason
    item = whole["instance_id"]
    for place, name in {
        f"run_scripts/{item}/run_script.sh": "run_script",
        f"run_scripts/{item}/parser.py": "parser",
        f"dockerfiles/base_dockerfile/{item}/Dockerfile": "base_dockerfile",
        f"dockerfiles/instance_dockerfile/{item}/Dockerfile": "instance_dockerfile",
    }.items():
        (data / place).parent.mkdir(parents=True, exist_ok=True)
        (data / place).write_text(whole[name])
    (of_hub,) = read(data, tmp_path / "two")
    fetched = tmp_path / "fetched"
    for name in ("ScaleAI--SWE-bench_Pro", "scaleapi--SWE-bench_Pro-os"):
        (fetched / name).parent.mkdir(exist_ok=True)
        (fetched / name).symlink_to(data)
    (of_both,) = read(fetched, tmp_path / "four")
    assert isinstance(of_both, ScenarioDraft)
    (tmp_path / "rows.jsonl").write_text(json.dumps(whole) + "\n")
    (of_sample,) = read(tmp_path / "rows.jsonl", tmp_path / "three")
    assert isinstance(of_hub, ScenarioDraft)
    assert isinstance(of_sample, ScenarioDraft)
    assert of_hub.attachments == of_sample.attachments
    assert of_hub.request == of_sample.request == of_both.request


def test_dockerfiles_are_joined(repository: Repository, tmp_path: Path) -> None:
    data = tmp_path / "rows.jsonl"
    base = "FROM 123.dkr.ecr.us-west-2.amazonaws.com/docker-hub/library/python:3.12 \nRUN true"
    data.write_text(json.dumps(row(repository, base_dockerfile=base)) + "\n")
    (draft,) = read(data, tmp_path / "work", "dockerfiles")
    assert isinstance(draft, ScenarioDraft)
    text = draft.folder.text("Dockerfile")
    assert text.startswith("FROM python:3.12 AS benchyard_base\nRUN true\n")
    assert "\nFROM benchyard_base\nENV TASTE very\n" in text
    assert f"git checkout -q --detach {repository.base}" in text


@pytest.mark.parametrize(
    ("item", "repo", "tag"),
    [
        ("instance_NodeBB__NodeBB-0a-vnan", "NodeBB/NodeBB", "nodebb.nodebb-NodeBB__NodeBB-0a"),
        ("instance_flipt-io__flipt-0a-v1b", "flipt-io/flipt", "flipt-io.flipt-flipt-io__flipt-0a-v1b"),
        (
            "instance_element-hq__element-web-0a-vnan",
            "element-hq/element-web",
            "element-hq.element-element-hq__element-web-0a",
        ),
    ],
)
def test_tags_follow_the_published_rule(item: str, repo: str, tag: str) -> None:
    assert swe_bench_pro.image_tag(item, repo) == tag
    assert len(swe_bench_pro.image_tag(item + "f" * 200, repo)) == 128
