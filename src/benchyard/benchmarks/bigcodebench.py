"""BigCodeBench: 1,140 functions to write in Python with calls of many libraries, graded by unit tests."""

from collections.abc import Iterator
from pathlib import Path

from benchyard.benchmarks import bigcodebench_items as items
from benchyard.benchmarks.base import About, Benchmark, Broken, Options
from benchyard.benchmarks.scenario_folder import Draft
from benchyard.benchmarks.sources.base import HubDataset, SourceFile

COMPLETE, INSTRUCT = "complete", "instruct"


class BigcodebenchBenchmark(Benchmark):
    """The whole set; its prompts are the beginnings of functions, or with `instruct` plain requests."""

    about = About(
        title="BigCodeBench",
        summary="1,140 Python functions that call many libraries, graded by unit tests",
        size=1140,
        licence=items.LICENCE,
        citation=items.CITATION,
        home="https://huggingface.co/datasets/bigcode/bigcodebench",
        aliases=("bigcode/bigcodebench", "BigCodeBench (complete)", "BigCodeBench-Full"),
        needs=items.NEEDS,
        variants=(COMPLETE, INSTRUCT, f"{COMPLETE}-{items.SMALL}", f"{INSTRUCT}-{items.SMALL}"),
    )
    source = HubDataset(
        "bigcode/bigcodebench",
        "b74c0d0bf70d2c0bc459be537895cca163007f1a",
        (SourceFile(f"data/{items.VERSION}-00000-of-00001.parquet"),),
    )

    def scenarios(self, data: Path, options: Options) -> Iterator[Draft | Broken]:
        prompt = INSTRUCT if (options.variant or "").startswith(INSTRUCT) else COMPLETE
        return items.scenarios("bigcodebench", data, options, prompt)
