"""`python -m perf [--rounds N] [--write]`: measure, print the table, and write it to docs/performance.md."""

import argparse
import datetime
import os
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchyard.testing.server import RunningServer
from perf import engines
from perf.api import Api
from perf.bubblewrap import Bubblewrap, bare
from perf.driver import Direct
from perf.measure import Figure, interleave

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def main() -> None:
    """Measure everything that step by step makes the promises of docs/performance.md."""
    parser = argparse.ArgumentParser(prog="python -m perf", description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    parser.add_argument("--folder", default="/var/tmp", help="where all contenders keep their files")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchyard-perf-", dir=options.folder) as name:
        text = "\n".join(measure(Path(name), options.rounds))
    print(text)
    if options.write:
        page = PAGE.read_text()
        head, _, rest = page.partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")


def measure(folder: Path, rounds: int) -> list[str]:
    """Run all contenders and return the lines of the report."""
    direct = Direct(folder)
    working, absent = engines.available(folder)
    with RunningServer(folder / "data", ["--driver", "native"]) as server:
        api = Api(server)
        api.keep_one()
        cycles: dict[str, Callable[[], object]] = {
            "bwrap": Bubblewrap(folder, direct.rootfs).cycle,
            "driver": direct.cycle,
            "api": api.cycle,
        }
        for engine in working:
            cycles[f"{engine.program} run --rm"] = engine.cycle
            cycles[f"{engine.program} run --rm --network none"] = engine.cycle_without_network
        whole = interleave(cycles, rounds)
        commands = interleave({"fork and exec": bare, "api": api.command}, rounds * 8, warm_up=40)
        api.close()
    mode = direct.mode
    direct.close()
    for engine in working:
        engine.unload()
    return report(
        whole, commands, [f"Native driver in mode `{mode}`.", *(f"Not measured: {why}" for why in absent)]
    )


def report(whole: dict[str, Figure], commands: dict[str, Figure], notes: list[str]) -> list[str]:
    """The tables."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    lines = [
        f"Measured {today} on Linux {platform.release()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}; {len(whole['bwrap'].values)} rounds, interleaved. " + " ".join(notes),
        "",
        "### Create, first command (`bash -lc true`), shut down",
        "",
        "| contender | p50 ms | p95 ms | to bwrap | to the driver |",
        "|---|---|---|---|---|",
    ]
    for figure in whole.values():
        to_baseline, to_driver = figure.p50 / whole["bwrap"].p50, figure.p50 / whole["driver"].p50
        lines.append(
            f"| {figure.name} | {figure.p50:.1f} | {figure.p95:.1f} | {to_baseline:.2f}x | {to_driver:.2f}x |"
        )
    floor, through = commands["fork and exec"], commands["api"]
    lines += [
        "",
        "### A command in a running devbox",
        "",
        "| contender | p50 ms | p95 ms | over fork and exec |",
        "|---|---|---|---|",
        f"| fork and exec | {floor.p50:.1f} | {floor.p95:.1f} | |",
        f"| api | {through.p50:.1f} | {through.p95:.1f} | +{through.p50 - floor.p50:.1f} ms |",
    ]
    return lines


if __name__ == "__main__":
    main()
