"""SWE-Bench Pro, the public set: 731 changes of eleven projects in four languages, graded by their tests."""

import re
from collections.abc import Iterator
from pathlib import Path

from benchyard.benchmarks import swe_pro_images, swe_rows
from benchyard.benchmarks.base import ITEM_KEY, About, Benchmark, Broken, Options
from benchyard.benchmarks.folders import Folder
from benchyard.benchmarks.scenario_folder import Draft, Origin
from benchyard.benchmarks.sources.base import GitTree, HubDataset, HubDatasets, SourceFile, part_folder
from benchyard.benchmarks.swe_rows import Row
from benchyard.benchmarks.swe_scenarios import (
    answer_rules,
    checked_commit,
    checked_item,
    contract,
    environment,
)
from benchyard.errors import DatasetError, UsageError
from benchyard.models.attachments import PackedFile, packed
from benchyard.models.scenarios import InputContext, ScenarioRequest
from benchyard.models.swe_bench import (
    ATTACHMENT,
    PARSER,
    RUN_SCRIPT,
    SPEC,
    TESTS_PATCH,
    SweBenchProTests,
    paths_in,
)

NAME = "swe-bench-pro"
DIRECTORY = "/app"
IMAGES, DOCKERFILES = "images", "dockerfiles"
_ROWS = HubDataset(
    "ScaleAI/SWE-bench_Pro",
    "7ab5114912baf22bb098818e604c02fe7ad2c11f",
    (SourceFile("data/test-00000-of-00001.parquet"),),
)
_SCRIPTS = GitTree(
    "https://github.com/scaleapi/SWE-bench_Pro-os",
    "ca10a60a5fcae51e6948ffe1485d4153d421e6c5",
    ("run_scripts", "dockerfiles"),
)
_SOLUTION = re.compile(r"-([0-9a-f]{40})(-v[0-9a-z]+)?$")
_SCORER_SECONDS = 3600
_PROMPT = """\
The repository {repo} is checked out in {directory}. Do what is asked for below by changing files there.

Tests that you do not see decide. Test files that come with them take the place of yours. What counts are \
the files as you leave them; there is no need to commit.

{problem}

Requirements:
{requirements}

New interfaces introduced:
{interface}
"""
"""From the problem on as the authors' own harness puts it together (scaleapi/SWE-bench_Pro-os, MIT)."""


class SweBenchProBenchmark(Benchmark):
    """Changes and repositories as they are published, with what grades them."""

    about = About(
        title="SWE-Bench Pro",
        summary="731 long changes of eleven projects in Python, Go, JavaScript and TypeScript",
        size=731,
        licence="MIT; patches are excerpts of projects under GPL and AGPL",
        citation="Deng et al., SWE-Bench Pro: Can AI Agents Solve Long-Horizon Software Engineering Tasks?, "
        "Scale AI, 2025",
        home="https://github.com/scaleapi/SWE-bench_Pro-os",
        aliases=("ScaleAI/SWE-Bench Pro", "ScaleAI/SWE-bench_Pro", "swebench-pro", "swe-bench_pro"),
        needs=(
            "a container registry with the official images, or a builder with a network; x86-64",
            "2 to 10 GB of disk per item whose image is used",
        ),
        variants=(IMAGES, DOCKERFILES),
    )
    source = HubDatasets((_ROWS, _SCRIPTS))

    def scenarios(self, data: Path, options: Options) -> Iterator[Draft | Broken]:
        is_empty = True
        scripts = _part(_SCRIPTS, data if data.is_dir() else data.parent)
        for row in swe_rows.found(_part(_ROWS, data)):
            is_empty = False
            try:
                yield draft(_completed(row, scripts), options)
            except UsageError as error:
                yield Broken(str(row["instance_id"])[:200], error.message)
        if is_empty:
            raise UsageError(f"{data}: there are no rows of SWE-Bench Pro in it")


def _part(part: HubDataset | GitTree, data: Path) -> Path:
    """Where a part of the source is: in a folder of its own, or with all else."""
    own = data / part_folder(part)
    return own if own.is_dir() else data


def _completed(row: Row, folder: Path) -> Row:
    """A row with its scripts: of itself, or of a copy of the authors' repository that lies beside it."""
    item = checked_item(row)
    places = {
        "run_script": f"run_scripts/{item}/run_script.sh",
        "parser": f"run_scripts/{item}/parser.py",
        "base_dockerfile": f"dockerfiles/base_dockerfile/{item}/Dockerfile",
        "instance_dockerfile": f"dockerfiles/instance_dockerfile/{item}/Dockerfile",
    }
    beside = Folder(folder)
    found = {
        name: beside.text(place) for name, place in places.items() if not row.get(name) and beside.has(place)
    }
    whole = {**row, **found}
    if not whole.get("run_script") or not whole.get("parser"):
        raise DatasetError(
            f"the row has no run_script and parser, and {folder / places['run_script']} is not there; clone "
            "https://github.com/scaleapi/SWE-bench_Pro-os, put the data file into it, and give: --from FOLDER"
        )
    return whole


def draft(row: Row, options: Options) -> Draft:
    """The scenario of a row, its build written below the work folder; raises UsageError."""
    item, commit = checked_item(row), checked_commit(row)
    request = ScenarioRequest(
        name=f"{NAME}/{item}",
        input_context=InputContext(problem_statement=_prompt(row)),
        scoring_contract=contract("swe_bench_pro_scorer"),
        environment_parameters=environment(DIRECTORY),
        metadata=_metadata(row, item),
        reference_output=swe_rows.patch(row, "patch"),
        scorer_timeout_sec=_SCORER_SECONDS,
        **answer_rules(DIRECTORY),
    )
    folder = options.work / item
    folder.mkdir(parents=True)
    (folder / "Dockerfile").write_text(_dockerfile(row, item, commit, options.variant or IMAGES))
    origin = Origin("dockerfile", "Dockerfile", on_demand=True)
    return Draft(Folder(folder), request, origin, attachments={ATTACHMENT: _graded(row, commit)})


def _dockerfile(row: Row, item: str, commit: str, variant: str) -> str:
    found = _SOLUTION.search(item)
    if found is None:
        raise DatasetError(f"instance_id {item!r} does not end with the commit of its solution")
    if variant == DOCKERFILES:
        return swe_pro_images.from_dockerfiles(row, commit, found[1])
    tag = row.get("dockerhub_tag") or swe_pro_images.tag(item, swe_rows.text(row, "repo"))
    return swe_pro_images.from_image(f"{swe_pro_images.REGISTRY}:{tag}", commit, found[1])


def _graded(row: Row, commit: str) -> bytes:
    tests = swe_rows.patch(row, "test_patch")
    commands = swe_rows.text(row, "before_repo_set_cmd", default="").strip()
    spec = SweBenchProTests(
        base_commit=commit,
        fail_to_pass=swe_rows.texts(row, "fail_to_pass", "FAIL_TO_PASS"),
        pass_to_pass=swe_rows.texts(row, "pass_to_pass", "PASS_TO_PASS"),
        tests_to_run=swe_rows.texts(row, "selected_test_files_to_run"),
        test_files=paths_in(tests),
        restore=commands.split("\n")[-1],
        env_lines=swe_pro_images.env_lines(row),
    )
    files = {
        SPEC: spec.model_dump_json(),
        RUN_SCRIPT: swe_rows.text(row, "run_script"),
        PARSER: swe_rows.text(row, "parser"),
        TESTS_PATCH: tests,
    }
    return packed({name: PackedFile(content.encode()) for name, content in files.items()})


def _prompt(row: Row) -> str:
    return _PROMPT.format(
        repo=swe_rows.text(row, "repo"),
        directory=DIRECTORY,
        problem=swe_rows.text(row, "problem_statement").strip(),
        requirements=swe_rows.text(row, "requirements", default="").strip(),
        interface=swe_rows.text(row, "interface", default="").strip(),
    )


def _metadata(row: Row, item: str) -> dict[str, str]:
    categories = swe_rows.texts({"issue_categories": [], **row}, "issue_categories")
    specificity = swe_rows.texts({"issue_specificity": [], **row}, "issue_specificity")
    told = {
        "repo": swe_rows.text(row, "repo"),
        "language": swe_rows.text(row, "repo_language", default=""),
        "category": swe_rows.text(row, "repo_language", default=""),
        "issue_categories": ", ".join(categories),
        "issue_specificity": ", ".join(specificity),
    }
    return {ITEM_KEY: item, **{key: value[:1000] for key, value in told.items() if value}}
