"""Folders of scenarios and benchmarks: pushed to the server, and pulled so that pushing changes nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchyard.benchmarks.files import benchmark_file, comparison
from benchyard.benchmarks.files.benchmark_file import BenchmarkDraft, NamedScenario
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.benchmarks.files.writer import FolderContents, scenario_contents, slug, write_scenario
from benchyard.client.benchmark_files.environments import origin_of, resolve_draft
from benchyard.client.benchmark_files.progress import SILENT, PushProgress
from benchyard.client.benchmark_files.results import PushResult
from benchyard.client.lookup import find_custom_scorer, find_one, find_scenario
from benchyard.client.nouns import SyncNouns
from benchyard.client.plain_text import clean
from benchyard.errors import UsageError
from benchyard.models.benchmarks import BenchmarkRequest, BenchmarkView
from benchyard.models.scenarios import ScenarioView, functions_of


def push_scenario(
    client: SyncNouns, draft: ScenarioDraft, *, dry_run: bool, progress: PushProgress = SILENT
) -> PushResult:
    """Create or change the scenario of that name, or leave it alone; a dry run only reports the change."""
    name = draft.request.name
    known = find_one(client.scenarios.list(name=name, limit=2), name, "scenario")
    return push_over_known(client, draft, known, dry_run=dry_run, progress=progress)


def push_over_known(
    client: SyncNouns,
    draft: ScenarioDraft,
    known: ScenarioView | None,
    *,
    dry_run: bool,
    progress: PushProgress = SILENT,
) -> PushResult:
    """Push a scenario as `push_scenario` does, given the present scenario of that name, if any."""
    before = tuple(push_scorers(client, draft, dry_run=dry_run))
    request = resolve_draft(client, draft, dry_run=dry_run, progress=progress)
    if known is None:
        made = None if dry_run else client.scenarios.create(**_request_fields(request))
        return PushResult(request.name, "created", made.id if made else None, before=before, is_dry=dry_run)
    differences = comparison.scenario_differences(known, request)
    if not differences:
        return PushResult(request.name, "unchanged", known.id, known.revision, before=before)
    revision = known.revision + 1
    if not dry_run:
        change = comparison.scenario_change(request, differences)
        revision = client.scenarios.update(known.id, **_request_fields(change)).revision
    return PushResult(request.name, "changed", known.id, revision, tuple(differences), before, dry_run)


def push_scorers(client: SyncNouns, draft: ScenarioDraft, *, dry_run: bool) -> Iterator[str]:
    """Register the custom scorers that come with a scenario; yields a sentence for each change."""
    would = "would be " if dry_run else ""
    for type, script in draft.custom_scorers.items():
        known = find_custom_scorer(client, type)
        if known is not None and known.bash_script == script:
            continue
        if known is None:
            if not dry_run:
                client.scenarios.scorers.create(type, script)
            yield f"custom scorer {clean(type)}: {would}registered"
        else:
            if not dry_run:
                client.scenarios.scorers.update(known.id, type, script)
            yield f"custom scorer {clean(type)}: {would}changed, for every scenario that uses it"


def push_benchmark(
    client: SyncNouns, draft: BenchmarkDraft, *, dry_run: bool, progress: PushProgress = SILENT
) -> list[PushResult]:
    """Push a benchmark's own scenarios, then the benchmark; the last result is that of the benchmark."""
    # Resolve names before any change: an unknown name must not leave half a benchmark.
    known = {
        scenario: scenario_id_of(client, scenario)
        for scenario in draft.scenarios
        if isinstance(scenario, NamedScenario)
    }
    done = []
    ids = []
    for scenario in draft.scenarios:
        if isinstance(scenario, NamedScenario):
            ids.append(known[scenario])
        else:
            done.append(push_scenario(client, scenario, dry_run=dry_run, progress=progress))
            ids.append(done[-1].id or f"(new: {scenario.request.name})")
    request = draft.request.model_copy(update={"scenario_ids": list(dict.fromkeys(ids))})
    return [*done, push_set(client, request, dry_run=dry_run)]


def scenario_id_of(client: SyncNouns, named: NamedScenario) -> str:
    """Return the id of a scenario that a benchmark's file names; raises UsageError with the line."""
    try:
        return find_scenario(client, named.id or named.name or "").id
    except UsageError as error:
        raise UsageError(f"{named.where}: {error.message}") from error


def push_set(client: SyncNouns, request: BenchmarkRequest, *, dry_run: bool) -> PushResult:
    """Create or change the benchmark of that name, whose scenarios exist already; or leave it alone."""
    known = _known_set(client, request.name)
    if known is None:
        try:
            made = None if dry_run else client.benchmarks.create(**_request_fields(request))
            return PushResult(request.name, "created", made.id if made else None, is_dry=dry_run)
        except UsageError:
            # Another client may have made it in the meantime.
            known = _known_set(client, request.name)
            if known is None:
                raise
    differences = comparison.benchmark_differences(known, request)
    if not differences:
        return PushResult(request.name, "unchanged", known.id, known.revision)
    revision = known.revision + 1
    if not dry_run:
        change = comparison.benchmark_change(request)
        revision = client.benchmarks.update(known.id, **_request_fields(change)).revision
    return PushResult(request.name, "changed", known.id, revision, tuple(differences), is_dry=dry_run)


def _known_set(client: SyncNouns, name: str) -> BenchmarkView | None:
    return find_one(client.benchmarks.list(name=name, limit=2), name, "benchmark")


def _request_fields(model: Any) -> Any:
    return model.model_dump(mode="json", exclude_none=True)


_OPTIONAL = (
    "description",
    "attribution",
    "required_environment_variables",
    "required_secret_names",
    "metadata",
)


def check_folder_is_free(folder: Path, *, force: bool) -> None:
    """Raise UsageError for a folder that is not empty, unless it may be overwritten."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    if not force and folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; choose another folder, or overwrite with --force")


def pull_scenario(client: SyncNouns, view: ScenarioView, folder: Path) -> None:
    """Write a scenario's folder."""
    scripts = {}
    for function in functions_of(view):
        type = function.scorer.get("custom_scorer_type")
        if function.scorer.get("type") == "custom_scorer" and isinstance(type, str):
            found = find_custom_scorer(client, type)
            if found is not None:
                scripts[type] = found.bash_script
    image = FolderContents({})
    origin = origin_of(client, view.environment, image)
    contents = scenario_contents(view, origin, scripts)
    contents.files.update(image.files)
    write_scenario(folder, contents)


def pull_benchmark(client: SyncNouns, view: BenchmarkView, folder: Path) -> int:
    """Write a benchmark's folder with those of its own scenarios; returns the number of these."""
    data: dict[str, Any] = {"name": view.name}
    data |= {name: value for name in _OPTIONAL if (value := getattr(view, name))}
    entries: list[Any] = []
    taken: set[str] = set()
    for scenario in client.benchmarks.definitions(view.id, limit=100):
        if scenario.is_public or scenario.status == "archived":
            entries.append({"id": scenario.id})
            continue
        name = _free_name(slug(scenario.name), taken)
        pull_scenario(client, scenario, folder / name)
        entries.append(name)
    FolderContents({**data, "scenarios": entries}).write(folder, benchmark_file.NAME)
    return len(taken)


def _free_name(name: str, taken: set[str]) -> str:
    found, count = name, 1
    while found in taken:
        count += 1
        found = f"{name}-{count}"
    taken.add(found)
    return found
