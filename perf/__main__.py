"""`python -m perf [--only NAME,...] [--write]`: measure, print and keep the tables."""

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from perf import (
    agents,
    build,
    compare,
    gateway,
    imports,
    jobs,
    many,
    output,
    regressions,
    reports,
    restart,
    scoring,
    snapshots,
    soak,
    versions,
)
from perf.options import Options
from perf.page import write

_SECTIONS: dict[str, Callable[[Path, Options], list[str]]] = {
    "compare": compare.measure,
    "many": many.measure,
    "restart": restart.measure,
    "output": output.measure,
    "build": build.measure,
    "snapshots": snapshots.measure,
    "scoring": scoring.measure,
    "jobs": jobs.measure,
    "reports": reports.measure,
    "imports": imports.measure,
    "gateway": gateway.measure,
    "agents": agents.measure,
    "versions": versions.measure,
    "regressions": regressions.measure,
    "soak": soak.measure,
}
_UNASKED = ("compare", "many", "restart", "output")
"""Measured when nothing is chosen: a soak takes up to an hour."""


def main() -> None:
    """Measure what was chosen, each in a fresh folder and each into its own part of the page."""
    parser = _parser()
    given = parser.parse_args()
    chosen = given.only.split(",")
    unknown = sorted(set(chosen) - set(_SECTIONS))
    if unknown:
        parser.error(f"no such section: {', '.join(unknown)}; there are: {', '.join(_SECTIONS)}")
    options = Options(**{field.name: getattr(given, field.name) for field in fields(Options)})
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="benchyard-perf-", dir=given.folder) as folder:
            lines = _SECTIONS[name](Path(folder), options)
        print("\n".join((f"== {name}", *lines, "")), flush=True)
        if given.write:
            write(name, lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf", description=__doc__)
    parser.add_argument(
        "--only", default=",".join(_UNASKED), metavar="NAME,...", help=f"of {', '.join(_SECTIONS)}"
    )
    parser.add_argument("--write", action="store_true", help="put the tables into docs/performance.md")
    parser.add_argument("--folder", default="/var/tmp", help="where all contenders keep their files")
    for field in fields(Options):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    return parser


if __name__ == "__main__":
    main()
