"""BigCodeBench-Hard (instruct): the 148 hard items of BigCodeBench, asked for in plain words."""

from collections.abc import Iterator
from pathlib import Path

from benchyard.benchmarks import bigcodebench_items as items
from benchyard.benchmarks.base import About, Benchmark, Broken, Options
from benchyard.benchmarks.bigcodebench_hard_complete import HARD
from benchyard.benchmarks.scenario_folder import Draft


class BigcodebenchHardInstructBenchmark(Benchmark):
    """The hard set, with plain requests for prompts."""

    about = About(
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

    def scenarios(self, data: Path, options: Options) -> Iterator[Draft | Broken]:
        return items.scenarios("bigcodebench-hard-instruct", data, options, "instruct")
