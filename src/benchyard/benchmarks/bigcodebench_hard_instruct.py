"""BigCodeBench-Hard (instruct): the 148 hard items of BigCodeBench, described in plain words."""

from collections.abc import Iterator
from pathlib import Path

from benchyard.benchmarks import bigcodebench as items
from benchyard.benchmarks.base import BenchmarkFacts, BrokenItem, ImportOptions, PublicBenchmark
from benchyard.benchmarks.bigcodebench_hard_complete import HARD
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft


class BigcodebenchHardInstructBenchmark(PublicBenchmark):
    """The hard set, with plain requests as prompts."""

    about = BenchmarkFacts(
        title="BigCodeBench-Hard (instruct)",
        summary="148 hard requests for Python functions, with many libraries, graded by unit tests",
        size=148,
        licence=items.LICENCE,
        citation=items.CITATION,
        home="https://huggingface.co/datasets/bigcode/bigcodebench-hard",
        aliases=("BigCodeBench-Hard", "bigcode/bigcodebench-hard", "BigCodeBench-Hard-Instruct"),
        needs=items.NEEDS,
        variants=("official", items.SMALL),
    )
    source = HARD

    def scenarios(self, data: Path, options: ImportOptions) -> Iterator[ScenarioDraft | BrokenItem]:
        return items.scenarios_of_set("bigcodebench-hard-instruct", data, options, "instruct")
