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
from datetime import UTC, datetime
from pathlib import Path

NOTES = Path(os.environ.get("BENCHYARD_PARITY_NOTES") or ".pytest_cache/parity")
FLOORS = {
    "aime": 30,
    "arc-agi-2": 24,
    "replicationbench verdicts": 30,
    "aider-polyglot": 6,
    "bigcodebench": 10,
    "terminal-bench-2": 6,
    "swe-bench of our own": 1,
}
"""Set -> the least that every run of the tests executes, where the samples are there."""
SAMPLES = Path(os.environ.get("BENCHYARD_SAMPLES") or Path(__file__).parents[2] / "shared" / "data")
IS_WHOLE = bool(os.environ.get("BENCHYARD_PARITY"))
"""Whether everything is to be executed that can be: `make parity`."""
PAGE = Path("docs/parity.md")
_MARKS = ("<!-- begin: parity -->", "<!-- end -->")


def note(name: str, items: list[str], listed: int, failed: dict[str, str] | None = None) -> None:
    """Keep that these items of a set were executed, of so many; `failed` were not as expected."""
    NOTES.mkdir(parents=True, exist_ok=True)
    told = {"set": name, "items": items, "listed": listed, "failed": failed or {}}
    (NOTES / f"{uuid.uuid4().hex}.json").write_text(json.dumps(told))


def clear() -> None:
    """Forget what an earlier run noted."""
    shutil.rmtree(NOTES, ignore_errors=True)


def report() -> tuple[list[str], list[str]]:
    """A line for each set, and what is less than it should be."""
    items: dict[str, set[str]] = defaultdict(set)
    listed: dict[str, int] = defaultdict(int)
    failed: dict[str, dict[str, str]] = defaultdict(dict)
    for path in sorted(NOTES.glob("*.json")):
        told = json.loads(path.read_text())
        items[told["set"]] |= set(told["items"])
        listed[told["set"]] = max(listed[told["set"]], told["listed"])
        failed[told["set"]] |= told["failed"]
    lines, short = [], []
    for name in sorted({*items, *FLOORS}):
        count, floor = len(items[name]), FLOORS.get(name, 0)
        bad = "; ".join(f"{item}: {why}" for item, why in sorted(failed[name].items()))
        lines.append(f"| {name} | {count} | {listed[name]} | {floor} | {bad} |")
        if count < floor:
            short.append(f"{name}: {count} executed, {floor} are the least")
    return lines, short


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def main() -> int:
    """Print the table; 1 where less was executed than is promised."""
    if not SAMPLES.is_dir():
        _say(f"parity: no real samples under {SAMPLES}, so none were executed; our own small ones were")
        return 0
    lines, short = report()
    table = ["| set | executed | listed | at least | not as expected |", "|---|---|---|---|---|", *lines]
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
