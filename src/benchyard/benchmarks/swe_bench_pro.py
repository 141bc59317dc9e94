"""SWE-Bench Pro, the public set: 731 changes of eleven projects in four languages, graded by their tests."""

import re
from collections.abc import Iterator
from pathlib import Path

from benchyard.benchmarks.base import ITEM_KEY, BenchmarkFacts, BrokenItem, ImportOptions, PublicBenchmark
from benchyard.benchmarks.files.bounded_folder import BoundedFolder
from benchyard.benchmarks.files.scenario_draft import EnvironmentOrigin, ScenarioDraft
from benchyard.benchmarks.sources.base import GitTree, HubDataset, HubDatasets, SourceFile, part_folder
from benchyard.benchmarks.swe_bench import items
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
    PARSER,
    RUN_SCRIPT,
    SPEC,
    SWE_BENCH_ATTACHMENT,
    TESTS_PATCH,
    SweBenchProTests,
    paths_in,
)

REGISTRY = "jefzda/sweap-images"
_LONGEST_TAG = 128
_ODD_TAG = "instance_element-hq__element-web-ec0f940ef0e8e3b61078f145f34dc40d1938e6c5-vnan"
"""The only item with a tag that does not follow the rule."""
_STAGE = "benchyard_base"
_FROM = re.compile(r"^FROM[ \t]+(\S+)[^\n]*$", re.MULTILINE)
_MIRROR = re.compile(r"^\d+\.dkr\.ecr\.[^/]+/docker-hub/(library/)?")
"""Pattern of a private mirror from which some Dockerfiles take public images."""
_CLEAN = """\
RUN cd /app && git checkout -q --detach {commit} \\
 && git remote | xargs -r -n 1 git remote remove \\
 && git for-each-ref --format='delete %(refname)' | git update-ref --stdin \\
 && rm -f .git/FETCH_HEAD .git/ORIG_HEAD .git/MERGE_HEAD \\
 && git reflog expire --expire=now --all \\
 && git gc -q --prune=now \\
 && if git cat-file -e {solution} 2>/dev/null; then echo "the solution is still there" >&2; exit 1; fi
"""
"""Removes all of the repository's history except what leads to the base commit."""
_RUNS_BASH = 'ENTRYPOINT []\nCMD ["/bin/bash"]\n'


def image_tag(item: str, repo: str) -> str:
    """Return the tag of an item's image, by its publishers' rule."""
    owner, _, name = repo.lower().partition("/")
    rest = item.removeprefix("instance_")
    if item != _ODD_TAG:
        rest = rest.removesuffix("-vnan")
        name = "element" if repo == "element-hq/element-web" else name
    return f"{owner}.{name}-{rest}"[:_LONGEST_TAG]


def dockerfile_from_image(image: str, commit: str, solution: str) -> str:
    """Return a Dockerfile over the official image that removes all commits after the base commit."""
    return f"FROM {image}\n{_CLEAN.format(commit=commit, solution=solution)}{_RUNS_BASH}"


def dockerfile_from_both(row: Row, commit: str, solution: str) -> str:
    """Join the two Dockerfiles of an item, without commits after the base commit; raises DatasetError."""
    base = items.text_of(row, "base_dockerfile")
    instance = items.text_of(row, "instance_dockerfile")
    if len(_FROM.findall(base)) != 1 or len(_FROM.findall(instance)) != 1:
        raise DatasetError("base_dockerfile and instance_dockerfile must have one line FROM each")
    base = _FROM.sub(lambda found: f"FROM {_MIRROR.sub('', found[1])} AS {_STAGE}", base)
    instance = _FROM.sub(f"FROM {_STAGE}", instance)
    return f"{base}\n\n{instance}\n\n{_CLEAN.format(commit=commit, solution=solution)}{_RUNS_BASH}"


def env_lines(row: Row) -> tuple[str, ...]:
    """Return the `ENV` lines of both Dockerfiles, as the official harness takes them: one line each."""
    both = [items.text_of(row, name, default="") for name in ("base_dockerfile", "instance_dockerfile")]
    stripped = (line.strip() for text in both for line in text.split("\n"))
    return tuple(line for line in stripped if line.startswith("ENV"))


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
"""Prompt; from the problem on it is that of the authors' own harness (scaleapi/SWE-bench_Pro-os, MIT)."""


class SweBenchProBenchmark(PublicBenchmark):
    """The published changes and repositories, graded by the official scripts."""

    about = BenchmarkFacts(
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

    def scenarios(self, data: Path, options: ImportOptions) -> Iterator[ScenarioDraft | BrokenItem]:
        is_empty = True
        scripts = _part(_SCRIPTS, data if data.is_dir() else data.parent)
        for row in items.read_rows(_part(_ROWS, data)):
            is_empty = False
            try:
                yield draft(_row_with_scripts(row, scripts), options)
            except UsageError as error:
                yield BrokenItem(str(row["instance_id"])[:200], error.message)
        if is_empty:
            raise UsageError(f"{data}: there are no rows of SWE-Bench Pro in it")


def _part(part: HubDataset | GitTree, data: Path) -> Path:
    """Return the folder of a part of the source: its own, or the one with all files."""
    own = data / part_folder(part)
    return own if own.is_dir() else data


def _row_with_scripts(row: Row, folder: Path) -> Row:
    """Return a row with its scripts: its own, or those of a copy of the authors' repository in `folder`."""
    item = item_name(row)
    places = {
        "run_script": f"run_scripts/{item}/run_script.sh",
        "parser": f"run_scripts/{item}/parser.py",
        "base_dockerfile": f"dockerfiles/base_dockerfile/{item}/Dockerfile",
        "instance_dockerfile": f"dockerfiles/instance_dockerfile/{item}/Dockerfile",
    }
    beside = BoundedFolder(folder)
    texts = {
        name: beside.text(place) for name, place in places.items() if not row.get(name) and beside.has(place)
    }
    whole = {**row, **texts}
    if not whole.get("run_script") or not whole.get("parser"):
        raise DatasetError(
            f"the row has no run_script and parser, and {folder / places['run_script']} is not there; clone "
            "https://github.com/scaleapi/SWE-bench_Pro-os, put the data file into it, and give: --from FOLDER"
        )
    return whole


def draft(row: Row, options: ImportOptions) -> ScenarioDraft:
    """Return the scenario of a row, and write its build below the work folder; raises UsageError."""
    item, commit = item_name(row), base_commit(row)
    request = ScenarioRequest(
        name=f"{NAME}/{item}",
        input_context=InputContext(problem_statement=_prompt(row)),
        scoring_contract=contract_of("swe_bench_pro_scorer"),
        environment_parameters=root_environment(DIRECTORY),
        metadata=_metadata(row, item),
        reference_output=items.patch_of(row, "patch"),
        scorer_timeout_sec=_SCORER_SECONDS,
        **answer_rules(DIRECTORY),
    )
    folder = options.work / item
    folder.mkdir(parents=True)
    (folder / "Dockerfile").write_text(_dockerfile(row, item, commit, options.variant or IMAGES))
    origin = EnvironmentOrigin("dockerfile", "Dockerfile", on_demand=True)
    return ScenarioDraft(
        BoundedFolder(folder), request, origin, attachments={SWE_BENCH_ATTACHMENT: _test_archive(row, commit)}
    )


def _dockerfile(row: Row, item: str, commit: str, variant: str) -> str:
    match = _SOLUTION.search(item)
    if match is None:
        raise DatasetError(f"instance_id {item!r} does not end with the commit of its solution")
    if variant == DOCKERFILES:
        return dockerfile_from_both(row, commit, match[1])
    tag = row.get("dockerhub_tag") or image_tag(item, items.text_of(row, "repo"))
    return dockerfile_from_image(f"{REGISTRY}:{tag}", commit, match[1])


def _test_archive(row: Row, commit: str) -> bytes:
    tests = items.patch_of(row, "test_patch")
    commands = items.text_of(row, "before_repo_set_cmd", default="").strip()
    spec = SweBenchProTests(
        base_commit=commit,
        fail_to_pass=items.texts_of(row, "fail_to_pass", "FAIL_TO_PASS"),
        pass_to_pass=items.texts_of(row, "pass_to_pass", "PASS_TO_PASS"),
        tests_to_run=items.texts_of(row, "selected_test_files_to_run"),
        test_files=paths_in(tests),
        restore=commands.split("\n")[-1],
        env_lines=env_lines(row),
    )
    files = {
        SPEC: spec.model_dump_json(),
        RUN_SCRIPT: items.text_of(row, "run_script"),
        PARSER: items.text_of(row, "parser"),
        TESTS_PATCH: tests,
    }
    return pack_files({name: PackedFile(content.encode()) for name, content in files.items()})


def _prompt(row: Row) -> str:
    return _PROMPT.format(
        repo=items.text_of(row, "repo"),
        directory=DIRECTORY,
        problem=items.text_of(row, "problem_statement").strip(),
        requirements=items.text_of(row, "requirements", default="").strip(),
        interface=items.text_of(row, "interface", default="").strip(),
    )


def _metadata(row: Row, item: str) -> dict[str, str]:
    categories = items.texts_of({"issue_categories": [], **row}, "issue_categories")
    specificity = items.texts_of({"issue_specificity": [], **row}, "issue_specificity")
    metadata = {
        "repo": items.text_of(row, "repo"),
        "language": items.text_of(row, "repo_language", default=""),
        "category": items.text_of(row, "repo_language", default=""),
        "issue_categories": ", ".join(categories),
        "issue_specificity": ", ".join(specificity),
    }
    return {ITEM_KEY: item, **{key: value[:1000] for key, value in metadata.items() if value}}
