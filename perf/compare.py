"""`compare`: one devbox and one command, side by side with bubblewrap and the container engines."""

from collections.abc import Callable
from pathlib import Path

from benchyard.testing.server import RunningServer
from perf import engines
from perf.api import Api
from perf.bubblewrap import Bubblewrap, bare
from perf.driver import Direct
from perf.measure import Figure, interleave
from perf.options import Options
from perf.page import heading, table


def measure(folder: Path, options: Options) -> list[str]:
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
        whole = interleave(cycles, options.rounds)
        commands = interleave({"fork and exec": bare, "api": api.command}, options.rounds * 8, warm_up=40)
        api.end_kept()
    mode = direct.mode
    direct.close()
    for engine in working:
        engine.unload()
    notes = [f"{options.rounds} rounds, interleaved.", f"Native driver in mode `{mode}`."]
    notes += [f"Not measured: {why}" for why in absent]
    return [heading(*notes), "", *_report(whole, commands)]


def _report(whole: dict[str, Figure], commands: dict[str, Figure]) -> list[str]:
    cycles = [
        (
            figure.name,
            f"{figure.p50:.1f}",
            f"{figure.p95:.1f}",
            f"{figure.p50 / whole['bwrap'].p50:.2f}x",
            f"{figure.p50 / whole['driver'].p50:.2f}x",
        )
        for figure in whole.values()
    ]
    floor, through = commands["fork and exec"], commands["api"]
    return [
        "### Create, first command (`bash -lc true`), shut down",
        *table(("contender", "p50 ms", "p95 ms", "to bwrap", "to the driver"), cycles),
        "",
        "### A command in a running devbox",
        *table(
            ("contender", "p50 ms", "p95 ms", "over fork and exec"),
            [
                ("fork and exec", f"{floor.p50:.1f}", f"{floor.p95:.1f}", ""),
                ("api", f"{through.p50:.1f}", f"{through.p95:.1f}", f"+{through.p50 - floor.p50:.1f} ms"),
            ],
        ),
    ]
