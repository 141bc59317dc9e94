"""BigCodeBench-Hard (complete): the 148 hard items of BigCodeBench, as functions to complete."""

from collections.abc import Iterator
from pathlib import Path

from benchyard.benchmarks import bigcodebench as items
from benchyard.benchmarks.base import BenchmarkFacts, BrokenItem, ImportOptions, PublicBenchmark
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.benchmarks.sources.base import HubDataset, SourceFile

HARD = HubDataset(
    "bigcode/bigcodebench-hard",
    "298d2cc7b96612e15e47313c3603ee124cee0c1f",
    (
        SourceFile(
            f"data/{items.VERSION}-00000-of-00001.parquet",
            "73a4270b43feb81abefad7bb1b592937c768ea45c3263bedc1cabd30a9a6ce79",
        ),
    ),
)


class BigcodebenchHardCompleteBenchmark(PublicBenchmark):
    """The hard set, with the beginnings of functions for prompts."""

    about = BenchmarkFacts(
        title="BigCodeBench-Hard (Complete)",
        summary="148 hard Python functions to complete, with many libraries, graded by unit tests",
        size=148,
        licence=items.LICENCE,
        citation=items.CITATION,
        home="https://huggingface.co/datasets/bigcode/bigcodebench-hard",
        aliases=("BigCodeBench-Hard-Complete",),
        needs=items.NEEDS,
        variants=("official", items.SMALL),
    )
    source = HARD

    def scenarios(self, data: Path, options: ImportOptions) -> Iterator[ScenarioDraft | BrokenItem]:
        return items.scenarios_of_set("bigcodebench-hard-complete", data, options, "complete")
