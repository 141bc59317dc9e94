"""Folders of scenarios and benchmarks: pushed to the server, and pulled so that pushing changes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchyard.benchmarks.files import benchmark_file, comparison, scenario_file
from benchyard.benchmarks.files.benchmark_file import BenchmarkDraft, NamedScenario
from benchyard.benchmarks.files.comparison import Difference
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.benchmarks.files.writer import FolderContents, scenario_contents, slug, write_scenario
from benchyard.client.benchmark_files.environments import origin_of, resolve_draft
from benchyard.client.benchmark_files.progress import SILENT, PushProgress
from benchyard.client.client import Client
from benchyard.client.lookup import find_custom_scorer, find_one, find_scenario
from benchyard.client.plain_text import clean
from benchyard.errors import UsageError
from benchyard.models.benchmarks import BenchmarkRequest, BenchmarkView
from benchyard.models.scenarios import ScenarioView, functions_of

PushAction = Literal["created", "changed", "unchanged"]
_SHOWN = 60
_BEFORE = 20
"""Number of equal characters that are shown before a difference."""


@dataclass(frozen=True)
class PushResult:
    """Result of pushing one scenario or benchmark."""

    name: str
    action: PushAction
    id: str | None = None
    """None for a new one in a dry run."""
    revision: int = 1
    differences: tuple[Difference, ...] = ()
    before: tuple[str, ...] = field(default=())
    """Sentences on preparations, such as registered scorers."""
    is_dry: bool = False
    """True in a dry run, in which nothing is changed."""

    def data(self) -> dict[str, Any]:
        """Return the result as plain values."""
        changed = [{"field": place, "was": old, "is": new} for place, old, new in self.differences]
        return {
            "id": self.id,
            "name": self.name,
            "action": self.action,
            "revision": self.revision,
            "changes": changed,
            "before": list(self.before),
        }

    def lines(self) -> Iterator[str]:
        """Yield the result as lines for people."""
        revision = f" (revision {self.revision})" if self.action != "unchanged" else ", nothing to do"
        would = "would be " if self.is_dry and self.action != "unchanged" else ""
        yield from self.before
        yield f"{self.id or '(new)'}  {clean(self.name)}: {would}{self.action}{revision}"
        for place, old, new in self.differences:
            yield f"  {clean(place)}: {_change(old, new)}"


def push_scenario(
    client: Client, draft: ScenarioDraft, *, dry_run: bool, progress: PushProgress = SILENT
) -> PushResult:
    """Create or change the scenario of that name, or leave it alone; a dry run only reports the change."""
    name = draft.request.name
    known = find_one(client.scenarios.list(name=name, limit=2), name, "scenario")
    return push_over_known(client, draft, known, dry_run=dry_run, progress=progress)


def push_over_known(
    client: Client,
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


def push_scorers(client: Client, draft: ScenarioDraft, *, dry_run: bool) -> Iterator[str]:
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
    client: Client, draft: BenchmarkDraft, *, dry_run: bool, progress: PushProgress = SILENT
) -> list[PushResult]:
    """Push a benchmark's own scenarios, then the benchmark; the last result is that of the benchmark."""
    # Resolve names before any change: an unknown name must not leave half a benchmark.
    known = {
        each: scenario_id_of(client, each) for each in draft.scenarios if isinstance(each, NamedScenario)
    }
    done = []
    ids = []
    for each in draft.scenarios:
        if isinstance(each, NamedScenario):
            ids.append(known[each])
        else:
            done.append(push_scenario(client, each, dry_run=dry_run, progress=progress))
            ids.append(done[-1].id or f"(new: {each.request.name})")
    request = draft.request.model_copy(update={"scenario_ids": list(dict.fromkeys(ids))})
    return [*done, push_set(client, request, dry_run=dry_run)]


def scenario_id_of(client: Client, named: NamedScenario) -> str:
    """Return the id of a scenario that a benchmark's file names; raises UsageError with the line."""
    try:
        return find_scenario(client, named.id or named.name or "").id
    except UsageError as error:
        raise UsageError(f"{named.where}: {error.message}") from error


def push_set(client: Client, request: BenchmarkRequest, *, dry_run: bool) -> PushResult:
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


def _known_set(client: Client, name: str) -> BenchmarkView | None:
    return find_one(client.benchmarks.list(name=name, limit=2), name, "benchmark")


def _request_fields(model: Any) -> Any:
    return model.model_dump(mode="json", exclude_none=True)


def _change(old: object, new: object) -> str:
    """Return the old and new value of a field; long values begin shortly before the first difference."""
    was, now = _text(old), _text(new)
    ends = (at for at, (one, other) in enumerate(zip(was, now, strict=False)) if one != other)
    same = next(ends, min(len(was), len(now)))
    start = max(0, same - _BEFORE) if same + _BEFORE > _SHOWN else 0
    return f"{_short(was, start)} -> {_short(now, start)}"


def _text(value: object) -> str:
    return (
        "nothing" if value in (None, "", [], {}) else clean(value if isinstance(value, str) else str(value))
    )


def _short(text: str, start: int) -> str:
    if not start and len(text) <= _SHOWN:
        return text
    end = start + _SHOWN
    shown = f"{'...' if start else ''}{text[start:end]}{'...' if end < len(text) else ''}"
    return f"{shown} ({len(text)} characters)"


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


def pull_scenario(client: Client, view: ScenarioView, folder: Path) -> None:
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


def pull_benchmark(client: Client, view: BenchmarkView, folder: Path) -> int:
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


def write_snapshot_scenario(folder: Path, snapshot: str, working_directory: str | None) -> None:
    """Write the folder of a scenario that starts from a snapshot of a devbox."""
    environment = {"snapshot": snapshot}
    if working_directory:
        environment["working_directory"] = working_directory
    scorer = {"name": "check", "type": "command_scorer", "weight": 1.0, "command": "test -e done.txt"}
    contents = FolderContents(
        {
            "name": slug(folder.resolve().name),
            "environment": environment,
            "scorers": [scorer],
            "isolation": "auto",
        }
    )
    contents.add("problem.md", "Create a file `done.txt` in the working directory.\n")
    contents.add("reference.sh", "touch done.txt\n")
    contents.write(folder, scenario_file.NAME)


def _free_name(name: str, taken: set[str]) -> str:
    found, count = name, 1
    while found in taken:
        count += 1
        found = f"{name}-{count}"
    taken.add(found)
    return found
