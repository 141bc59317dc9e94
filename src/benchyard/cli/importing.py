"""Importing benchmarks: public ones by name, and folders of tasks, from here or from git."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from benchyard.benchmarks import catalog, task_sets
from benchyard.benchmarks.access import Access, Phases
from benchyard.benchmarks.base import PUBLIC_KEY, REVISION_KEY, Benchmark, Broken, Options
from benchyard.benchmarks.folders import Folder
from benchyard.benchmarks.registry_file import MANIFEST, read_manifest, read_registry
from benchyard.benchmarks.scenario_folder import Draft
from benchyard.benchmarks.sources import archives, git
from benchyard.benchmarks.sources.base import GitTree, Source
from benchyard.benchmarks.sources.fetching import commit_of, fetch
from benchyard.benchmarks.writing import slug
from benchyard.cli.datasets import Bar, cache_folder
from benchyard.cli.names import one_named
from benchyard.cli.notices import say
from benchyard.cli.progress import patience
from benchyard.cli.pushing import Pushed, push_over, push_set
from benchyard.cli.render import clean
from benchyard.cli.settling import first_named, settled
from benchyard.client.client import Client
from benchyard.errors import BenchyardError, Conflict, UsageError
from benchyard.models.benchmarks import BenchmarkRequest
from benchyard.models.job_plans import counted
from benchyard.models.scenarios import ScenarioView

Network = Literal["task", "gateway"]
GATEWAY = Phases(Access("none"), Access("none"), Access("none"))


@dataclass(frozen=True)
class Wish:
    """What is to be imported, and how."""

    given: str
    """A name, a folder, or the address of a git repository."""
    name: str | None = None
    local: Path | None = None
    """A copy of a public benchmark's data."""
    variant: str | None = None
    seed: int = 0
    limit: int | None = None
    network: Network = "task"
    token: str | None = field(default=None, repr=False)
    dry_run: bool = False


@dataclass(frozen=True)
class Found:
    """A set of scenarios, before it is on the server."""

    request: BenchmarkRequest
    items: Iterator[Draft | Broken]
    known_bad: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Imported:
    """What an import came to."""

    benchmark: Pushed
    scenarios: list[Pushed]
    broken: list[Broken]
    known_bad: dict[str, str]
    kept: int = 0
    """Scenarios that stay in the benchmark although they were not read now."""

    def data(self) -> dict[str, Any]:
        """As plain values."""
        counts = {name: self.count(name) for name in ("created", "changed", "unchanged")}
        return {
            **self.benchmark.data(),
            "scenarios": {"total": len(self.scenarios), **counts},
            "kept": self.kept,
            "broken": [{"name": each.name, "reason": each.reason} for each in self.broken],
            "known_bad": self.known_bad,
        }

    def count(self, action: str) -> int:
        """How many scenarios were created, changed or left as they were."""
        return sum(each.action == action for each in self.scenarios)

    def lines(self) -> Iterator[str]:
        """For people."""
        for each in self.broken:
            yield f"{'note' if each.is_note else 'not imported'}: {clean(each.name)}: {clean(each.reason)}"
        for item, reason in self.known_bad.items():
            yield f"known to be bad: {clean(item)}: {clean(reason)}"
        new, changed, same = (self.count(action) for action in ("created", "changed", "unchanged"))
        yield f"{counted(len(self.scenarios), 'scenario')}: {new} new, {changed} changed, {same} as they were"
        if self.kept:
            yield f"{self.kept} more stay in the benchmark: only a part of it was read now"
        yield from self.benchmark.lines()


def imported(client: Client, wish: Wish) -> Imported:
    """Have the server hold a benchmark; what is broken in it is told, and the rest goes on."""
    with tempfile.TemporaryDirectory(prefix="benchyard-import-") as work, _found(wish, Path(work)) as found:
        items = found.items if wish.limit is None else islice(found.items, wish.limit)
        with patience(f"importing {found.request.name}"):
            pushed, broken = _push_all(client, found.request.name, _with_network(items, wish), wish)
        if not pushed:
            told = (
                "; ".join(f"{each.name}: {each.reason}" for each in broken[:3]) or "there was nothing in it"
            )
            raise UsageError(f"nothing was imported: {told}")
        if not wish.dry_run:
            pushed = settled(client, pushed)
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
        return Imported(made, pushed, broken, bad, len({*before} - {*ids}))


def _scenario_ids(client: Client, name: str) -> list[str]:
    """What a benchmark has already: a part of a set takes nothing away from it."""
    known = one_named(client.benchmarks.list(name=name, limit=2), name, "benchmark")
    return known.scenario_ids if known else []


def _push_all(
    client: Client, name: str, items: Iterator[Draft | Broken], wish: Wish
) -> tuple[list[Pushed], list[Broken]]:
    known = _Known(client)
    pushed: list[Pushed] = []
    broken: list[Broken] = []
    with Bar(f"scenarios of {name}") as bar:
        for item in items:
            bar.advanced(1)
            if isinstance(item, Broken):
                broken.append(item)
                continue
            try:
                pushed.append(_pushed(client, item, known.named(item.request.name), dry_run=wish.dry_run))
            except UsageError as error:
                broken.append(Broken(item.request.name, error.message))
    return pushed, broken


def _pushed(client: Client, draft: Draft, known: ScenarioView | None, *, dry_run: bool) -> Pushed:
    try:
        return push_over(client, draft, known, dry_run=dry_run)
    except Conflict:
        if known is None:
            raise
        # Another import changed it since it was looked up; what that left may be what is wanted.
        return push_over(client, draft, client.scenarios.retrieve(known.id), dry_run=dry_run)


class _Known:
    """Scenarios that the server has, asked for once for each set that they belong to.

    A set is not always named like the benchmark: variants of one share scenarios.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._sets: dict[str, dict[str, ScenarioView]] = {}

    def named(self, name: str) -> ScenarioView | None:
        """The scenario of that name."""
        prefix = name.partition("/")[0] + "/"
        if prefix not in self._sets:
            self._sets[prefix] = first_named(self._client, prefix)
        return self._sets[prefix].get(name)


def _with_network(items: Iterator[Draft | Broken], wish: Wish) -> Iterator[Draft | Broken]:
    for item in items:
        is_ours = wish.network == "gateway" and isinstance(item, Draft) and item.phases is not None
        yield replace(item, phases=GATEWAY) if is_ours and isinstance(item, Draft) else item


@contextmanager
def _found(wish: Wish, work: Path) -> Iterator[Found]:
    name = None if _is_path(wish.given) else catalog.canonical(wish.given)
    path = Path(wish.given).expanduser()
    if name is not None:
        yield _public(wish, name, work)
    elif path.is_dir():
        yield _folder(wish, path, work)
    elif path.is_file() and path.suffix == ".json":
        yield _registered(wish, path, work)
    elif "://" in wish.given or wish.given.endswith(".git") or "@" in wish.given:
        tree = git.asked(wish.given)
        folder = _tree(tree)
        yield _folder(replace(wish, name=wish.name or _last(tree.url)), folder, work, git.commit_of(folder))
    elif _is_path(wish.given):
        raise UsageError(
            f"there is no folder or file {wish.given}; give a folder of Harbor tasks, a registry.json, the "
            "address of a git repository, or the name of a public benchmark "
            "(`benchyard benchmark list --public`)"
        )
    else:
        catalog.required(wish.given)


def _public(wish: Wish, name: str, work: Path) -> Found:
    benchmark = catalog.load(name)
    about = benchmark.about
    _check_variant(wish, about.variants)
    say(f"{about.title}: {about.licence}; please cite: {about.citation}")
    data = archives.unpacked(wish.local, work / "copy") if wish.local else _fetched(benchmark.source, wish)
    variant = f"-{wish.variant}" if wish.variant and wish.variant != about.variants[0] else ""
    options = Options(work / "made", wish.variant, wish.seed)
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
    # Another name is another benchmark, with scenarios of its own: those of the usual one stay as they are.
    own = slug(wish.name) if wish.name else name if about.variants_are_parts else name + variant
    items = _tagged(benchmark, benchmark.scenarios(data, options), (name, own))
    return Found(request, items, dict(benchmark.known_bad))


def _tagged(
    benchmark: Benchmark, items: Iterator[Draft | Broken], names: tuple[str, str]
) -> Iterator[Draft | Broken]:
    """Each scenario with the name of its benchmark, and what is known to be bad about it.

    `names` are that of the benchmark, and what the names of its scenarios begin with.
    """
    for item in items:
        if isinstance(item, Broken):
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


def _check_variant(wish: Wish, variants: tuple[str, ...]) -> None:
    if wish.variant is not None and wish.variant not in variants:
        told = f"those there are: {', '.join(variants)}" if variants else "it has none"
        raise UsageError(f"{wish.given} has no variant {wish.variant!r}; {told}")


def _fetched(source: Source, wish: Wish) -> Path:
    try:
        with Bar(wish.given) as bar:
            return fetch(source, cache_folder(), bar, wish.token)
    except BenchyardError as error:
        more = "" if "--from" in error.message else ". With a copy of the data: --from PATH"
        raise type(error)(error.message + more, **error.details) from error


def _folder(wish: Wish, folder: Path, work: Path, revision: str | None = None) -> Found:
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
    return Found(request, task_sets.scenarios(name, folder, work))


def _registered(wish: Wish, path: Path, work: Path) -> Found:
    """A dataset that a registry lists, named by `--name NAME[@VERSION]`."""
    registry = read_registry(path)
    names = sorted({each.name for each in registry.datasets})
    if wish.name is None:
        raise UsageError(
            f"{path} lists several datasets; say which with --name NAME[@VERSION]: {', '.join(names)}"
        )
    dataset = registry.find(wish.name)
    folders = {(tree.url, tree.revision): _tree(tree) for tree in dataset.trees()}
    tasks = []
    for each in dataset.tasks:
        root = path.parent if each.git_url is None else folders[each.git_url, each.commit or "HEAD"]
        tasks.append(Folder(root).inside(each.path))
    name = slug(f"{dataset.name}@{dataset.version}")
    request = BenchmarkRequest(
        name=name, description=dataset.description or None, metadata={REVISION_KEY: dataset.version}
    )
    return Found(request, task_sets.read(name, tasks, work))


def _tree(tree: GitTree) -> Path:
    with Bar("repository") as bar:
        return fetch(tree, cache_folder(), bar)


def _is_path(given: str) -> bool:
    """Whether somebody means a folder of theirs, whatever it is called."""
    return given.startswith((".", "/", "~")) or given.endswith("/")


def _last(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2].removesuffix(".git")
