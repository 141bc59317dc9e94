"""Terminal-Bench 2.0: 89 tasks at a terminal, each graded by its own tests."""

from collections.abc import Iterator
from pathlib import Path

from benchyard.benchmarks.base import BenchmarkFacts, BrokenItem, ImportOptions, PublicBenchmark
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.benchmarks.harbor import task_folders
from benchyard.benchmarks.sources.base import GitTree
from benchyard.models.scenarios import Isolation

NAME = "terminal-bench-2"
_LIVE: dict[str, Isolation] = dict.fromkeys(
    (
        "configure-git-webserver",
        "git-multibranch",
        "install-windows-3.11",
        "kv-store-grpc",
        "mailman",
        "nginx-request-logging",
        "pypi-server",
        "qemu-alpine-ssh",
        "qemu-startup",
    ),
    "live",
)
"""Tasks with a running program as their result: it is graded while it runs."""


class TerminalBench2Benchmark(PublicBenchmark):
    """The tasks of the set as they are published, in Harbor's form."""

    about = BenchmarkFacts(
        title="Terminal-Bench 2.0",
        summary="89 hard tasks at a terminal: building, debugging, security, data, machine learning",
        size=89,
        licence="Apache-2.0",
        citation="The Terminal-Bench Team, Terminal-Bench 2.0, Laude Institute, 2025",
        home="https://github.com/harbor-framework/terminal-bench-2",
        aliases=(
            "Laude Institute/Terminal-Bench-2.0",
            "laude-institute/terminal-bench-2",
            "harbor-framework/terminal-bench-2",
            "terminal-bench@2.0",
        ),
        needs=("a builder with a network, or the published images", "2 to 8 GB of memory per devbox"),
    )
    source = GitTree(
        "https://github.com/laude-institute/terminal-bench-2", "69671fbaac6d67a7ef0dfec016cc38a64ef7a77c"
    )
    """The commit to which Harbor's own registry pins version 2.0."""

    def scenarios(self, data: Path, options: ImportOptions) -> Iterator[ScenarioDraft | BrokenItem]:
        return task_folders.scenarios_of_set(NAME, data, options.work, _LIVE)
