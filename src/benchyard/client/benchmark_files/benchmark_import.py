"""Imports of benchmarks: public ones by name, and folders of tasks, from this machine or from git.

Two simultaneous imports of a set end with the scenarios that were made first. Lists are in the order of
creation, and each import looks again afterwards: of two imports that made the same scenario, at least the
later one sees both, and archives its own.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Literal

from benchyard.benchmarks import catalog
from benchyard.benchmarks.base import PUBLIC_KEY, REVISION_KEY, BrokenItem, ImportOptions, PublicBenchmark
from benchyard.benchmarks.files.bounded_folder import BoundedFolder
from benchyard.benchmarks.files.scenario_draft import NetworkAccess, PhaseAccess, ScenarioDraft
from benchyard.benchmarks.files.writer import slug
from benchyard.benchmarks.harbor import task_folders
from benchyard.benchmarks.harbor.registry_files import MANIFEST, read_manifest, read_registry
from benchyard.benchmarks.sources import git, local_copies
from benchyard.benchmarks.sources.base import GitTree, Source
from benchyard.benchmarks.sources.retrieval import commit_of, fetch
from benchyard.client.benchmark_files.folders import push_over_known, push_set
from benchyard.client.benchmark_files.progress import SILENT, PushProgress
from benchyard.client.benchmark_files.results import ImportResult, PushResult
from benchyard.client.lookup import find_one
from benchyard.client.nouns import SyncNouns
from benchyard.errors import BenchyardError, Conflict, UsageError
from benchyard.models.benchmarks import BenchmarkRequest
from benchyard.models.scenarios import ScenarioView
from benchyard.settings import default_datasets_folder

_PAGE = 1000


def oldest_by_name(client: SyncNouns, prefix: str) -> dict[str, ScenarioView]:
    """Return the scenarios with names that begin so, by name; the oldest of each name."""
    return {scenario.name: scenario for scenario in client.scenarios.list(search=prefix, limit=_PAGE)}


def dedupe(client: SyncNouns, pushed: list[PushResult]) -> list[PushResult]:
    """Return the pushed scenarios; duplicates of older scenarios are archived and replaced by these."""
    mine = {each.name: each for each in pushed if each.action == "created" and each.id}
    theirs: dict[str, ScenarioView] = {}
    for prefix in sorted({name.partition("/")[0] + "/" for name in mine}):
        theirs |= oldest_by_name(client, prefix)
    for name, each in mine.items():
        winner = theirs.get(name)
        if winner is not None and each.id is not None and winner.id != each.id:
            client.scenarios.archive(each.id)
            mine[name] = replace(each, action="unchanged", id=winner.id, revision=winner.revision)
    return [mine.get(each.name, each) for each in pushed]


Network = Literal["task", "gateway"]
GATEWAY_ONLY = PhaseAccess(NetworkAccess("none"), NetworkAccess("none"), NetworkAccess("none"))


@dataclass(frozen=True)
class BenchmarkImport:
    """A requested import, and its options."""

    given: str
    """Name, folder, or address of a git repository."""
    name: str | None = None
    local: Path | None = None
    """Copy of a public benchmark's data."""
    variant: str | None = None
    seed: int = 0
    limit: int | None = None
    network: Network = "task"
    token: str | None = field(default=None, repr=False)
    dry_run: bool = False
    progress: PushProgress = field(default=SILENT, repr=False)


@dataclass(frozen=True)
class ImportSet:
    """A set of scenarios, before it is on the server."""

    request: BenchmarkRequest
    items: Iterator[ScenarioDraft | BrokenItem]
    known_bad: dict[str, str] = field(default_factory=dict)


def import_benchmark(client: SyncNouns, wish: BenchmarkImport) -> ImportResult:
    """Store a benchmark on the server; broken items are reported, and the rest is imported."""
    with (
        tempfile.TemporaryDirectory(prefix="benchyard-import-") as work,
        _open_set(wish, Path(work)) as found,
    ):
        items = found.items if wish.limit is None else islice(found.items, wish.limit)
        with wish.progress.activity(f"importing {found.request.name}"):
            pushed, broken = _push_all(client, found.request.name, _with_network(items, wish), wish)
        if not pushed:
            told = (
                "; ".join(f"{each.name}: {each.reason}" for each in broken[:3]) or "there was nothing in it"
            )
            raise UsageError(f"nothing was imported: {told}")
        if not wish.dry_run:
            pushed = dedupe(client, pushed)
        ids = [each.id or f"(new: {each.name})" for each in pushed]
        is_part = wish.limit is not None or not all(each.is_note for each in broken)
        before = _scenario_ids(client, found.request.name) if is_part else []
        every = list(dict.fromkeys([*before, *ids]))
        labels = {**(found.request.metadata or {})}
        if "size" in labels:
            labels["size"] = str(len(every))
        request = found.request.model_copy(update={"scenario_ids": every, "metadata": labels or None})
        made = push_set(client, request, dry_run=wish.dry_run)
        inner = {each.name.partition("/")[2] for each in pushed}
        bad = {item: reason for item, reason in found.known_bad.items() if item in inner}
        return ImportResult(made, pushed, broken, bad, len({*before} - {*ids}))


def _scenario_ids(client: SyncNouns, name: str) -> list[str]:
    """Return the scenarios that a benchmark has already: importing a part of a set removes none of them."""
    known = find_one(client.benchmarks.list(name=name, limit=2), name, "benchmark")
    return known.scenario_ids if known else []


def _push_all(
    client: SyncNouns, name: str, items: Iterator[ScenarioDraft | BrokenItem], wish: BenchmarkImport
) -> tuple[list[PushResult], list[BrokenItem]]:
    known = _KnownScenarios(client)
    pushed: list[PushResult] = []
    broken: list[BrokenItem] = []
    with wish.progress.counter(f"scenarios of {name}") as bar:
        for item in items:
            bar.advanced(1)
            if isinstance(item, BrokenItem):
                broken.append(item)
                continue
            try:
                pushed.append(_push_one(client, item, known.named(item.request.name), wish))
            except UsageError as error:
                broken.append(BrokenItem(item.request.name, error.message))
    return pushed, broken


def _push_one(
    client: SyncNouns, draft: ScenarioDraft, known: ScenarioView | None, wish: BenchmarkImport
) -> PushResult:
    try:
        return push_over_known(client, draft, known, dry_run=wish.dry_run, progress=wish.progress)
    except Conflict:
        if known is None:
            raise
        # Another import changed the scenario after the lookup; its result may be the wanted one.
        now = client.scenarios.retrieve(known.id)
        return push_over_known(client, draft, now, dry_run=wish.dry_run, progress=wish.progress)


class _KnownScenarios:
    """Scenarios that the server has, listed once for each set that they belong to.

    A set is not always named like the benchmark: variants of one share scenarios.
    """

    def __init__(self, client: SyncNouns) -> None:
        self._client = client
        self._sets: dict[str, dict[str, ScenarioView]] = {}

    def named(self, name: str) -> ScenarioView | None:
        """Return the scenario of that name; None if there is none."""
        prefix = name.partition("/")[0] + "/"
        if prefix not in self._sets:
            self._sets[prefix] = oldest_by_name(self._client, prefix)
        return self._sets[prefix].get(name)


def _with_network(
    items: Iterator[ScenarioDraft | BrokenItem], wish: BenchmarkImport
) -> Iterator[ScenarioDraft | BrokenItem]:
    for item in items:
        is_ours = wish.network == "gateway" and isinstance(item, ScenarioDraft) and item.phases is not None
        yield replace(item, phases=GATEWAY_ONLY) if is_ours and isinstance(item, ScenarioDraft) else item


@contextmanager
def _open_set(wish: BenchmarkImport, work: Path) -> Iterator[ImportSet]:
    name = None if _is_path(wish.given) else catalog.canonical_name(wish.given)
    path = Path(wish.given).expanduser()
    if name is not None:
        yield _public_set(wish, name, work)
    elif path.is_dir():
        yield _folder_set(wish, path, work)
    elif path.is_file() and path.suffix == ".json":
        yield _registry_set(wish, path, work)
    elif "://" in wish.given or wish.given.endswith(".git") or "@" in wish.given:
        tree = git.resolve_tree(wish.given)
        folder = _fetch_tree(wish, tree)
        yield _folder_set(
            replace(wish, name=wish.name or _repository_name(tree.url)), folder, work, git.commit_of(folder)
        )
    elif _is_path(wish.given):
        raise UsageError(
            f"there is no folder or file {wish.given}; give a folder of Harbor tasks, a registry.json, the "
            "address of a git repository, or the name of a public benchmark "
            "(`benchyard benchmark list --public`)"
        )
    else:
        catalog.require_name(wish.given)


def _public_set(wish: BenchmarkImport, name: str, work: Path) -> ImportSet:
    benchmark = catalog.load(name)
    about = benchmark.about
    _check_variant(wish, about.variants)
    wish.progress.say(f"{about.title}: {about.licence}; please cite: {about.citation}")
    data = (
        local_copies.unpack(wish.local, work / "copy")
        if wish.local
        else _fetch_source(benchmark.source, wish)
    )
    variant = f"-{wish.variant}" if wish.variant and wish.variant != about.variants[0] else ""
    options = ImportOptions(work / "made", wish.variant, wish.seed)
    options.work.mkdir()
    request = BenchmarkRequest(
        name=wish.name or name + variant,
        description=about.summary,
        attribution=f"{about.citation}. {about.licence}. {about.home}",
        metadata={
            PUBLIC_KEY: name,
            REVISION_KEY: "local copy" if wish.local else commit_of(benchmark.source, data),
            "title": about.title,
            "licence": about.licence,
            "size": str(about.size),
            **({"variant": wish.variant} if wish.variant else {}),
        },
    )
    # Another name makes another benchmark, with its own scenarios: those of the usual one stay as they are.
    own = slug(wish.name) if wish.name else name if about.variants_are_parts else name + variant
    items = _tag_items(benchmark, benchmark.scenarios(data, options), (name, own))
    return ImportSet(request, items, dict(benchmark.known_bad))


def _tag_items(
    benchmark: PublicBenchmark, items: Iterator[ScenarioDraft | BrokenItem], names: tuple[str, str]
) -> Iterator[ScenarioDraft | BrokenItem]:
    """Yield each scenario with the name of its benchmark, and its known defects.

    `names` are that of the benchmark, and the prefix of its scenarios' names.
    """
    for item in items:
        if isinstance(item, BrokenItem):
            yield item
            continue
        own = item.request.metadata or {}
        labels = {**own, PUBLIC_KEY: names[0]}
        inner = item.request.name.partition("/")[2]
        reason = benchmark.known_bad.get(inner)
        if reason is not None:
            labels["known_bad"] = reason
        changes = {"metadata": labels, "name": f"{names[1]}/{inner}"}
        yield replace(item, request=item.request.model_copy(update=changes))


def _check_variant(wish: BenchmarkImport, variants: tuple[str, ...]) -> None:
    if wish.variant is not None and wish.variant not in variants:
        told = f"those there are: {', '.join(variants)}" if variants else "it has none"
        raise UsageError(f"{wish.given} has no variant {wish.variant!r}; {told}")


def _fetch_source(source: Source, wish: BenchmarkImport) -> Path:
    try:
        with wish.progress.counter(wish.given) as bar:
            return fetch(source, default_datasets_folder(), bar, wish.token)
    except BenchyardError as error:
        more = "" if "--from" in error.message else ". With a copy of the data: --from PATH"
        raise type(error)(error.message + more, **error.details) from error


def _folder_set(wish: BenchmarkImport, folder: Path, work: Path, revision: str | None = None) -> ImportSet:
    if wish.local or wish.variant:
        raise UsageError("--from and --variant are for public benchmarks")
    manifest = read_manifest(folder / MANIFEST) if (folder / MANIFEST).is_file() else None
    name = slug(wish.name or (manifest.name if manifest else folder.resolve().name))
    version = revision or (manifest.version if manifest else None)
    request = BenchmarkRequest(
        name=name,
        description=(manifest.description or None) if manifest else None,
        metadata={REVISION_KEY: version} if version else None,
    )
    return ImportSet(request, task_folders.scenarios_of_set(name, folder, work))


def _registry_set(wish: BenchmarkImport, path: Path, work: Path) -> ImportSet:
    """Return a dataset that a registry lists, named by `--name NAME[@VERSION]`."""
    registry = read_registry(path)
    names = sorted({each.name for each in registry.datasets})
    if wish.name is None:
        raise UsageError(
            f"{path} lists several datasets; say which with --name NAME[@VERSION]: {', '.join(names)}"
        )
    dataset = registry.find(wish.name)
    folders = {(tree.url, tree.revision): _fetch_tree(wish, tree) for tree in dataset.trees()}
    tasks = []
    for task in dataset.tasks:
        root = path.parent if task.git_url is None else folders[task.git_url, task.commit or "HEAD"]
        tasks.append(BoundedFolder(root).inside(task.path))
    name = slug(f"{dataset.name}@{dataset.version}")
    request = BenchmarkRequest(
        name=name, description=dataset.description or None, metadata={REVISION_KEY: dataset.version}
    )
    return ImportSet(request, task_folders.read_tasks(name, tasks, work))


def _fetch_tree(wish: BenchmarkImport, tree: GitTree) -> Path:
    with wish.progress.counter("repository") as bar:
        return fetch(tree, default_datasets_folder(), bar)


def _is_path(given: str) -> bool:
    """Tell whether the argument must mean a folder, even if its name is that of a benchmark."""
    return given.startswith((".", "/", "~")) or given.endswith("/")


def _repository_name(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2].removesuffix(".git")
