"""A benchmark of your own as an adapter: each line of a JSON file becomes a scenario.

A package with it is installed beside the command line, and names it in its `pyproject.toml`:

    [project.entry-points."benchyard.benchmarks"]
    word-lists = "custom_benchmark:WordListsBenchmark"

Then `benchyard benchmark import word-lists` fetches its data and makes its scenarios; with `--from FILE` it
takes a copy of the data. They are graded by the scorer of `custom_scorer.py`. A few scenarios are easier as
folders: docs/guides/scenarios.md.
"""

from collections.abc import Iterator
from pathlib import Path

from benchyard.benchmarks.base import BenchmarkFacts, BrokenItem, ImportOptions, PublicBenchmark
from benchyard.benchmarks.files.bounded_folder import BoundedFolder
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.benchmarks.sources.base import GitTree
from benchyard.benchmarks.sources.records import rows
from benchyard.models.scenarios import InputContext, ScenarioRequest, ScoringContract


class WordListsBenchmark(PublicBenchmark):
    """Texts whose words are to be listed."""

    about = BenchmarkFacts(
        title="Word lists",
        summary="texts whose words are to be written into words.txt, one on each line",
        size=2,
        licence="MIT",
        citation="none",
        home="https://git.example/you/word-lists",
    )
    source = GitTree("https://git.example/you/word-lists.git", "v1", ("items.jsonl",))

    def scenarios(self, data: Path, options: ImportOptions) -> Iterator[ScenarioDraft | BrokenItem]:
        """Yield a scenario for each row, with a reference that validation can try."""
        for row in rows(data / "items.jsonl" if data.is_dir() else data):
            name, text = str(row["name"]), str(row["text"])
            lines = text.split()
            scorer = {"type": "line_list_scorer", "path": "words.txt", "lines": lines}
            request = ScenarioRequest(
                name=f"word-lists/{name}",
                input_context=InputContext(problem_statement=text),
                scoring_contract=ScoringContract.model_validate(
                    {"scoring_function_parameters": [{"name": "words", "weight": 1, "scorer": scorer}]}
                ),
                reference_output="\n".join(lines),
                validation_type="EVALUATION",
                scoring_isolation="answer",
                answer_paths=["words.txt"],
            )
            yield ScenarioDraft(BoundedFolder(options.work), request)
