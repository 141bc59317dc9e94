"""What was executed of the public benchmarks' real samples: noted by tests, counted in the end.

`python -m tests.parity` prints, for each set, how many items were executed of those that its sample lists,
and fails where that is less than `make test` promises. `make parity` executes all that this machine can.
"""

import json
import os
import shutil
import sys
import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

NOTES = Path(os.environ.get("BENCHYARD_PARITY_NOTES") or ".pytest_cache/parity")
FLOORS = {
    "aime": 30,
    "arc-agi-2": 24,
    "replicationbench verdicts": 30,
    "aider-polyglot": 1,
    "terminal-bench-2": 1,
    "swe-bench of our own": 1,
}
"""Set -> the least that every run of the tests executes, where the samples are there."""
SAMPLES = Path(os.environ.get("BENCHYARD_SAMPLES") or Path(__file__).parents[2] / "shared" / "data")
IS_WHOLE = bool(os.environ.get("BENCHYARD_PARITY"))
"""Whether everything is to be executed that can be: `make parity`."""
PAGE = Path("docs/parity.md")
_MARKS = ("<!-- begin: parity -->", "<!-- end -->")


@dataclass
class Noted:
    """What the tests told of one set."""

    items: set[str] = field(default_factory=set)
    listed: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def lines(self, name: str) -> list[str]:
        """What was not executed, with the reason: a line for each reason."""
        by_reason: dict[str, list[str]] = defaultdict(list)
        for item, why in sorted(self.left.items()):
            if item not in self.items:
                by_reason[why].append(item.removeprefix(f"{name}/"))
        return [f"- {name}: {self._told(some)}: {why}." for why, some in by_reason.items()]

    def _told(self, some: list[str]) -> str:
        return f"all {len(some)}" if len(some) == self.listed else ", ".join(some)


def note(
    name: str,
    items: list[str],
    listed: int,
    failed: Mapping[str, str] | None = None,
    left: Mapping[str, str] | None = None,
) -> None:
    """Keep that these items of a set were executed, of so many.

    `failed` were not as expected; `left` cannot be executed here, with the reason.
    """
    NOTES.mkdir(parents=True, exist_ok=True)
    told = {
        "set": name,
        "items": items,
        "listed": listed,
        "failed": dict(failed or {}),
        "left": dict(left or {}),
    }
    (NOTES / f"{uuid.uuid4().hex}.json").write_text(json.dumps(told))


def unexpected(
    oracle: Mapping[str, float | None],
    nop: Mapping[str, float | None],
    declared: Mapping[str, float] | None = None,
) -> dict[str, str]:
    """Item -> its scores, where the oracle has not 1, or doing nothing not what is declared, else 0."""
    return {
        name: f"oracle {score}, nop {nop.get(name)}"
        for name, score in oracle.items()
        if (score, nop.get(name)) != (1.0, (declared or {}).get(name, 0.0))
    }


def clear() -> None:
    """Forget what an earlier run noted."""
    shutil.rmtree(NOTES, ignore_errors=True)


def noted() -> dict[str, Noted]:
    """What all tests of a run told, by set; of an item that was executed again the last word counts."""
    found: dict[str, Noted] = defaultdict(Noted)
    for path in sorted(NOTES.glob("*.json"), key=lambda each: each.stat().st_mtime):
        told = json.loads(path.read_text())
        one = found[told["set"]]
        for item in told["items"]:
            one.items.add(item)
            one.failed.pop(item, None)
        one.listed = max(one.listed, told["listed"])
        one.failed |= told["failed"]
        one.left |= told["left"]
    return found


def report() -> tuple[list[str], list[str], list[str]]:
    """A line for each set; lines of what was not executed and why; and what is less than it should be."""
    found = noted()
    lines, left, short = [], [], []
    for name in sorted({*found, *FLOORS}):
        one = found[name]
        count, floor = len(one.items), FLOORS.get(name, 0)
        bad = "; ".join(f"{item}: {why}" for item, why in sorted(one.failed.items()))
        lines.append(f"| {name} | {count} | {one.listed} | {floor} | {bad} |")
        left += one.lines(name)
        if count < floor:
            short.append(f"{name}: {count} executed, {floor} are the least")
    return lines, left, short


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def main() -> int:
    """Print the table; 1 where less was executed than is promised."""
    if not SAMPLES.is_dir():
        _say(f"parity: no real samples under {SAMPLES}, so none were executed; our own small ones were")
        return 0
    lines, left, short = report()
    table = ["| set | executed | listed | at least | not as expected |", "|---|---|---|---|---|", *lines]
    if left:
        table += ["", "Not executed, and why:", "", *left]
    _say("\n".join(["", "parity with the public benchmarks:", *table]))
    if "--write" in sys.argv:
        _write(table)
    for each in short:
        _say(f"parity: {each}")
    return 1 if short else 0


def _write(table: list[str]) -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(_MARKS[0])
    day = datetime.now(UTC).date().isoformat()
    after = rest.partition(_MARKS[1])[2]
    PAGE.write_text(
        "\n".join([before + _MARKS[0], "", f"Measured {day}.", "", *table, "", _MARKS[1] + after])
    )


if __name__ == "__main__":
    sys.exit(main())
