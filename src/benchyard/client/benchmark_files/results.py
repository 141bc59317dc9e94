"""Results of pushes, imports, exports and validations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import Field

from benchyard.client.plain_text import clean
from benchyard.models.base import Model
from benchyard.models.benchmarks import BenchmarkView
from benchyard.models.job_plans import count_text
from benchyard.models.scenarios import STRICTEST_FIRST, Isolation, ValidatedIsolation

Difference = tuple[str, Any, Any]
"""Place, old value and new value; None is no value."""
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


@dataclass(frozen=True)
class PulledBenchmark:
    """A benchmark that was written as a folder."""

    benchmark: BenchmarkView
    folders: int
    """Number of its scenarios' folders."""


class BrokenItem(Protocol):
    """An item that was not taken over, or a note about the data."""

    @property
    def name(self) -> str:
        """Name of the item."""
        ...

    @property
    def reason(self) -> str:
        """Reason, with file and line, and the remedy."""
        ...

    @property
    def is_note(self) -> bool:
        """Tell whether no item is missing."""
        ...


@dataclass(frozen=True)
class ImportResult:
    """Result of an import."""

    benchmark: PushResult
    scenarios: list[PushResult]
    broken: Sequence[BrokenItem]
    known_bad: dict[str, str]
    kept: int = 0
    """Number of scenarios that stay in the benchmark although this import did not read them."""

    def data(self) -> dict[str, Any]:
        """Return the result as plain values."""
        counts = {name: self.count(name) for name in ("created", "changed", "unchanged")}
        return {
            **self.benchmark.data(),
            "scenarios": {"total": len(self.scenarios), **counts},
            "kept": self.kept,
            "broken": [{"name": each.name, "reason": each.reason} for each in self.broken],
            "known_bad": self.known_bad,
        }

    def count(self, action: str) -> int:
        """Return the number of scenarios that were created, changed or left unchanged."""
        return sum(scenario.action == action for scenario in self.scenarios)

    def lines(self) -> Iterator[str]:
        """Yield the result as lines for people."""
        for each in self.broken:
            yield f"{'note' if each.is_note else 'not imported'}: {clean(each.name)}: {clean(each.reason)}"
        for item, reason in self.known_bad.items():
            yield f"known to be bad: {clean(item)}: {clean(reason)}"
        new, changed, same = (self.count(action) for action in ("created", "changed", "unchanged"))
        scenarios = count_text(len(self.scenarios), "scenario")
        yield f"{scenarios}: {new} new, {changed} changed, {same} as they were"
        if self.kept:
            yield f"{self.kept} more stay in the benchmark: only a part of it was read now"
        yield from self.benchmark.lines()


@dataclass(frozen=True)
class ExportResult:
    """Result of an export."""

    folder: Path
    tasks: list[str] = field(default_factory=list)
    """Names of the task folders."""
    refused: Sequence[BrokenItem] = ()

    def data(self) -> dict[str, Any]:
        """Return the result as plain values."""
        refused = [{"name": each.name, "reason": each.reason} for each in self.refused]
        return {"folder": str(self.folder), "tasks": self.tasks, "refused": refused}

    def lines(self) -> Iterator[str]:
        """Yield the result as lines for people."""
        for each in self.refused:
            yield f"not exported: {clean(each.name)}: {clean(each.reason)}"
        folders = count_text(len(self.tasks), "task folder")
        yield f"{self.folder}  {folders}; `benchyard benchmark import` reads them"


Kind = Literal["reference", "nothing"]


class ValidationAttempt(Model):
    """A run of a scenario, made to see its score."""

    kind: Kind
    isolation: Isolation = "clean"
    run_id: str | None = None
    score: float | None = None
    """Score of the run; None if it has none."""
    scorers: dict[str, float] = Field(default_factory=dict)
    reasons: list[str] = Field(default_factory=list)
    """Reasons why it has no score, or why scorers failed or deducted points."""
    has_errors: bool = False
    counted: dict[str, int] = Field(default_factory=dict)
    """Number of tests in the report, for each scorer that makes its runner write one."""
    seconds: float = 0.0


class ScenarioValidation(Model):
    """Result of validating one scenario."""

    scenario_id: str
    name: str
    revision: int = 1
    isolation: Isolation = "clean"
    """Isolation of its grading: the author's choice, else the strictest that works."""
    is_chosen: bool = False
    """True if the author chose the isolation."""
    strictest: Isolation | None = None
    """Strictest isolation in which the reference scores 1.0 and doing nothing does not; None without one."""
    failed: dict[Isolation, str] = Field(default_factory=dict)
    """Isolations that were tried and do not work, each with the reason."""
    is_valid: bool
    problems: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    """Remarks that are no failures."""
    clean_suffices: bool | None = None
    """True if grading in a clean room gives the same scores; None if that is not known."""
    attempts: list[ValidationAttempt] = Field(default_factory=list)
    needs_live: bool = False
    """True if the reference gets its score only while the processes it started still run."""
    is_unbuilt: bool = False
    """True if its environment cannot be built on this server."""

    @property
    def validated(self) -> ValidatedIsolation | None:
        """Return the record that is stored with the scenario; None if no isolation works."""
        if self.strictest is None:
            return None
        at = STRICTEST_FIRST.index(self.strictest)
        failed = {each: why for each, why in self.failed.items() if STRICTEST_FIRST.index(each) < at}
        return ValidatedIsolation(isolation=self.strictest, failed=failed)


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
