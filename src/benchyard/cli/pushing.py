"""Pushing: makes the server hold what a folder describes, and nothing twice."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from benchyard.benchmarks import comparing
from benchyard.benchmarks.benchmark_folder import BenchmarkDraft, Named
from benchyard.benchmarks.comparing import Difference
from benchyard.benchmarks.scenario_folder import Draft
from benchyard.cli.environments import resolved
from benchyard.cli.names import one_named, scenario_named
from benchyard.cli.render import clean, hanging
from benchyard.client.client import Client
from benchyard.errors import UsageError
from benchyard.models.benchmarks import BenchmarkRequest, BenchmarkView
from benchyard.models.scenarios import CustomScorerView, ScenarioView

Action = Literal["created", "changed", "unchanged"]
_SHOWN = 60
_BEFORE = 20
"""Of what is the same in both, how much is shown before the difference."""


@dataclass(frozen=True)
class Pushed:
    """What pushing one thing came to."""

    name: str
    action: Action
    id: str | None = None
    """None for what would be new, when nothing was to be done."""
    revision: int = 1
    differences: tuple[Difference, ...] = ()
    before: tuple[str, ...] = field(default=())
    """What had to be done first."""
    is_dry: bool = False
    """Whether it is only what would be done."""

    def data(self) -> dict[str, Any]:
        """As plain values."""
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
        """For people."""
        revision = f" (revision {self.revision})" if self.action != "unchanged" else ", nothing to do"
        would = "would be " if self.is_dry and self.action != "unchanged" else ""
        yield from self.before
        yield f"{self.id or '(new)'}  {clean(self.name)}: {would}{self.action}{revision}"
        for place, old, new in self.differences:
            first, *rest = hanging(f"{clean(place)}: {_change(old, new)}", 4)
            yield from (f"  {first}", *rest)


def push_scenario(client: Client, draft: Draft, *, dry_run: bool) -> Pushed:
    """Create or change the scenario of that name, or leave it alone; in a dry run, say what would be done."""
    name = draft.request.name
    known = one_named(client.scenarios.list(name=name, limit=2), name, "scenario")
    return push_over(client, draft, known, dry_run=dry_run)


def push_over(client: Client, draft: Draft, known: ScenarioView | None, *, dry_run: bool) -> Pushed:
    """As `push_scenario`, where it is known which scenario has that name, if any."""
    before = tuple(push_scorers(client, draft, dry_run=dry_run))
    request = resolved(client, draft, dry_run=dry_run)
    if known is None:
        made = None if dry_run else client.scenarios.create(**_fields(request))
        return Pushed(request.name, "created", made.id if made else None, before=before, is_dry=dry_run)
    differences = comparing.scenario_differences(known, request)
    if not differences:
        return Pushed(request.name, "unchanged", known.id, known.revision, before=before)
    revision = known.revision + 1
    if not dry_run:
        change = comparing.scenario_change(request, differences)
        revision = client.scenarios.update(known.id, **_fields(change)).revision
    return Pushed(request.name, "changed", known.id, revision, tuple(differences), before, dry_run)


def push_scorers(client: Client, draft: Draft, *, dry_run: bool) -> Iterator[str]:
    """Register the custom scorers that come with a scenario; says what was done."""
    would = "would be " if dry_run else ""
    for type, script in draft.custom_scorers.items():
        known = custom_scorer(client, type)
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


def custom_scorer(client: Client, type: str) -> CustomScorerView | None:
    """The custom scorer of a type, if there is one."""
    return next((each for each in client.scenarios.scorers.list(search=type) if each.type == type), None)


def push_benchmark(client: Client, draft: BenchmarkDraft, *, dry_run: bool) -> list[Pushed]:
    """Push a benchmark's own scenarios, then the benchmark; the last one of what is returned is that."""
    # Before anything is made: a name that means nothing must not leave half of it.
    known = {each: known_scenario(client, each) for each in draft.scenarios if isinstance(each, Named)}
    done = []
    ids = []
    for each in draft.scenarios:
        if isinstance(each, Named):
            ids.append(known[each])
        else:
            done.append(push_scenario(client, each, dry_run=dry_run))
            ids.append(done[-1].id or f"(new: {each.request.name})")
    request = draft.request.model_copy(update={"scenario_ids": list(dict.fromkeys(ids))})
    return [*done, push_set(client, request, dry_run=dry_run)]


def known_scenario(client: Client, named: Named) -> str:
    """The id of a scenario that a benchmark's file names; raises UsageError with the line."""
    try:
        return scenario_named(client, named.id or named.name or "").id
    except UsageError as error:
        raise UsageError(f"{named.where}: {error.message}") from error


def push_set(client: Client, request: BenchmarkRequest, *, dry_run: bool) -> Pushed:
    """Create or change the benchmark of that name, whose scenarios are there; or leave it alone."""
    known = _known_set(client, request.name)
    if known is None:
        try:
            made = None if dry_run else client.benchmarks.create(**_fields(request))
            return Pushed(request.name, "created", made.id if made else None, is_dry=dry_run)
        except UsageError:
            # Somebody else may have made it since.
            known = _known_set(client, request.name)
            if known is None:
                raise
    differences = comparing.benchmark_differences(known, request)
    if not differences:
        return Pushed(request.name, "unchanged", known.id, known.revision)
    revision = known.revision + 1
    if not dry_run:
        change = comparing.benchmark_change(request)
        revision = client.benchmarks.update(known.id, **_fields(change)).revision
    return Pushed(request.name, "changed", known.id, revision, tuple(differences), is_dry=dry_run)


def _known_set(client: Client, name: str) -> BenchmarkView | None:
    return one_named(client.benchmarks.list(name=name, limit=2), name, "benchmark")


def _fields(model: Any) -> Any:
    return model.model_dump(mode="json", exclude_none=True)


def _change(old: object, new: object) -> str:
    """What a field was and is; of long values the place where they begin to differ."""
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
