"""SWE-bench Verified: 500 issues of twelve Python projects, each graded by its project's tests."""

import re
from collections.abc import Iterator
from pathlib import Path

from benchyard.benchmarks.base import ITEM_KEY, BenchmarkFacts, BrokenItem, ImportOptions, PublicBenchmark
from benchyard.benchmarks.files.bounded_folder import BoundedFolder
from benchyard.benchmarks.files.scenario_draft import EnvironmentOrigin, ScenarioDraft
from benchyard.benchmarks.sources.base import GitTree
from benchyard.benchmarks.swe_bench import evaluation_scripts, items, local_images
from benchyard.benchmarks.swe_bench.items import (
    Row,
    answer_rules,
    base_commit,
    contract_of,
    item_name,
    root_environment,
)
from benchyard.errors import DatasetError, UsageError
from benchyard.models.scenarios import InputContext, ScenarioRequest
from benchyard.models.scoring.attachments import PackedFile, pack_files
from benchyard.models.scoring.swe_bench import (
    EVAL_SCRIPT,
    SPEC,
    SWE_BENCH_ATTACHMENT,
    SweBenchSpec,
    SweBenchTests,
    paths_in,
)

NAME = "swe-bench-verified"
DATASET = "SWE-bench/SWE-bench_Verified"
DIRECTORY = "/testbed"
IMAGES, LOCAL = "images", "local"
_SCORER_SECONDS = 1800 + 300
"""Time for the scorer: half an hour for the tests, as in the official harness, and the work around them."""
_PROMPT = """\
The repository {repo} is checked out in {directory}. Resolve the issue below by changing files there.

Tests that you do not see decide: those that show the issue must pass, and those that passed before must \
still pass. Changes to the test files that they are in are undone before they run. What counts are the files \
as you leave them; there is no need to commit.{conda}

<issue>
{issue}
</issue>
"""
_ASK_OUTSIDE = {
    "psf/requests": re.compile(
        r"::test_(?:HTTP_\d|DIGEST|BASICAUTH|POSTBIN|connect_timeout|total_timeout_connect)"
    ),
    "sphinx-doc/sphinx": re.compile(
        r"test_build_latex\.py::test_latex_images$"
        r"|test_build_linkcheck\.py::test_(?:defaults|defaults_json|anchors_ignored)$"
    ),
}
"""Project -> pattern of tests that need the internet: without it, not even the gold patch resolves."""
_CONDA = """ The project is installed in conda's environment `testbed`: \
`source /opt/miniconda3/bin/activate testbed`."""


class SweBenchVerifiedBenchmark(PublicBenchmark):
    """The published issues and repositories, graded by the official tests."""

    about = BenchmarkFacts(
        title="SWE-bench Verified",
        summary="500 issues of twelve Python projects that people checked to be solvable",
        size=500,
        licence="MIT; patches are excerpts under the licences of their projects",
        citation="Jimenez et al., SWE-bench: Can Language Models Resolve Real-World GitHub Issues?, ICLR "
        "2024; Chowdhury et al., Introducing SWE-bench Verified, OpenAI, 2024",
        home="https://github.com/SWE-bench/swe-bench-tasks",
        aliases=(DATASET, "princeton-nlp/SWE-bench_Verified", "swebench-verified", "swe-bench_verified"),
        needs=(
            "a container registry with the official images, or a builder with a network; x86-64",
            "1 to 4 GB of disk per item whose image is used",
            "the extra `benchmarks` on the server (the package swebench)",
        ),
        variants=(IMAGES, LOCAL),
    )
    source = GitTree(
        "https://github.com/SWE-bench/swe-bench-tasks", "34d7c5e2ab2950f91dee00f734001959ed884797", ("tasks",)
    )
    known_bad = {  # noqa: RUF012  the contract's own form
        "psf__requests-2317": "its tests ask httpbin.org, which must be reachable and well while they run",
    }

    def scenarios(self, data: Path, options: ImportOptions) -> Iterator[ScenarioDraft | BrokenItem]:
        is_empty = True
        for row in _rows(data):
            is_empty = False
            if isinstance(row, DatasetError):
                yield BrokenItem(NAME, row.message)
                continue
            try:
                yield draft(row, options, data)
            except UsageError as error:
                yield BrokenItem(str(row["instance_id"])[:200], error.message)
        if is_empty:
            raise UsageError(f"{data}: there are no rows of SWE-bench Verified, and no folder `tasks`")


def _rows(data: Path) -> Iterator[Row | DatasetError]:
    if items.is_task_repository(data):
        return items.read_tasks(data, DATASET)
    return iter(items.read_rows(data))


def draft(row: Row, options: ImportOptions, data: Path) -> ScenarioDraft:
    """Return the scenario of a row, and write its build below the work folder; raises UsageError."""
    item = item_name(row)
    commit = base_commit(row)
    spec = _spec(row, item)
    tests = evaluation_scripts.Tests(commit, items.patch_of(row, "test_patch"), item)
    graded = SweBenchTests(spec=spec, test_files=paths_in(tests.patch))
    script = row.get("eval_script") or evaluation_scripts.script(spec.repo, spec.version, tests)
    files = {
        EVAL_SCRIPT: PackedFile(str(script).encode()),
        SPEC: PackedFile(graded.model_dump_json().encode()),
    }
    request = ScenarioRequest(
        name=f"{NAME}/{item}",
        input_context=InputContext(problem_statement=_prompt(row, str(script))),
        scoring_contract=contract_of("swe_bench_scorer", base_commit=commit),
        environment_parameters=root_environment(DIRECTORY),
        metadata=_metadata(row, item, options.variant),
        reference_output=items.patch_of(row, "patch"),
        scorer_timeout_sec=_SCORER_SECONDS,
        **answer_rules(DIRECTORY),
    )
    folder = options.work / item
    origin = _local(row, data, folder) if options.variant == LOCAL else _official(row, item, folder)
    return ScenarioDraft(
        BoundedFolder(folder), request, origin, attachments={SWE_BENCH_ATTACHMENT: pack_files(files)}
    )


def _spec(row: Row, item: str) -> SweBenchSpec:
    repo = items.text_of(row, "repo")
    return SweBenchSpec(
        instance_id=item,
        repo=repo,
        version=items.text_of(row, "version", default=""),
        FAIL_TO_PASS=items.texts_of(row, "FAIL_TO_PASS", "fail_to_pass"),
        PASS_TO_PASS=items.texts_of(row, "PASS_TO_PASS", "pass_to_pass"),
        log_parser=row.get("log_parser") or evaluation_scripts.parser(repo),
        eval_type=row.get("eval_type") or "pass_and_fail",
    )


def _prompt(row: Row, script: str) -> str:
    return _PROMPT.format(
        repo=items.text_of(row, "repo"),
        directory=DIRECTORY,
        conda=_CONDA if "/opt/miniconda3/" in script else "",
        issue=items.text_of(row, "problem_statement").strip(),
    )


def _metadata(row: Row, item: str, variant: str | None) -> dict[str, str]:
    metadata = {
        "repo": items.text_of(row, "repo"),
        "version": items.text_of(row, "version", default=""),
        "difficulty": items.text_of(row, "difficulty", default=""),
        "created_at": items.text_of(row, "created_at", default=""),
        "language": "python",
        "category": items.text_of(row, "repo"),
        "environment": local_images.MARK if variant == LOCAL else "",
        "needs": _needs(row),
        "eval_script": "" if row.get("eval_script") else "made from the row, which has none",
    }
    return {ITEM_KEY: item, **{key: value[:1000] for key, value in metadata.items() if value}}


def _needs(row: Row) -> str:
    """Return the needs of the scorer outside of the environment, in words; empty if it has none."""
    pattern = _ASK_OUTSIDE.get(items.text_of(row, "repo"))
    listed = [
        test for key in ("FAIL_TO_PASS", "PASS_TO_PASS") for test in items.texts_of(row, key, key.lower())
    ]
    return "a network for its scorer" if pattern and any(map(pattern.search, listed)) else ""


def _official(row: Row, item: str, folder: Path) -> EnvironmentOrigin:
    """Return the official image, or else a build of the row's Dockerfile, which defaults to that image."""
    image = row.get("image") or f"swebench/sweb.eval.x86_64.{item.replace('__', '_1776_').lower()}:latest"
    text = items.text_of(row, "dockerfile", default="") or f"FROM {image}\n"
    folder.mkdir(parents=True)
    (folder / "Dockerfile").write_text(text)
    if "environment.yml" in re.findall(r"^COPY\s+(\S+)", text, re.MULTILINE):
        (folder / "environment.yml").write_text(items.text_of(row, "environment_yml"))
    return EnvironmentOrigin("dockerfile", "Dockerfile", prebuilt=str(image), on_demand=True)


def _local(row: Row, data: Path, folder: Path) -> EnvironmentOrigin:
    """Return an environment that is not the official one."""
    local_images.write(row, data, folder)
    return EnvironmentOrigin("dockerfile", "Dockerfile", on_demand=True)
