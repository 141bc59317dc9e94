"""ARC-AGI-2: tasks of the repository's folders, shown without the outputs that are asked for."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchyard.benchmarks import catalog
from benchyard.errors import UsageError
from tests.benchmarks.reading import drafts, expected, read_all
from tests.benchmarks.samples.finding import OWN, sample

DATA = OWN / "arc-agi-2"
PAIR = {"input": [[1]], "output": [[2]]}


@pytest.mark.parametrize("place", [DATA, DATA / "data", DATA / "data" / "evaluation"])
def test_a_copy_of_the_repository_or_a_part_of_it_is_read(place: Path) -> None:
    first, second = drafts("arc-agi-2", place)
    assert (first.name, second.name) == ("arc-agi-2/aaaa0001", "arc-agi-2/aaaa0002")
    assert expected(first) == {"task_id": "aaaa0001", "outputs": [[[6, 5, 4]], [[0, 7], [8, 0]]]}
    assert json.loads(first.reference_output or "")["aaaa0001"][1]["attempt_1"] == [[0, 7], [8, 0]]
    assert (first.metadata or {})["split"] == "evaluation"


def test_training_pairs_and_test_inputs_are_shown_and_nothing_else() -> None:
    first, _ = drafts("arc-agi-2", DATA)
    prompt = first.input_context.problem_statement
    assert '{"input": [[2, 0, 3]], "output": [[3, 0, 2]]}' in prompt
    assert '{"input": [[7, 0], [0, 8]]}' in prompt
    assert "there are 2" in prompt
    assert '{"aaaa0001": [{"attempt_1": ' in prompt
    assert "[6, 5, 4]" not in prompt
    assert "[8, 0]" not in prompt


def test_the_training_tasks_are_a_variant() -> None:
    (only,) = drafts("arc-agi-2", DATA, variant="training")
    assert (only.name, (only.metadata or {})["split"]) == ("arc-agi-2/bbbb0001", "training")
    assert "there is one" in only.input_context.problem_statement


BROKEN: list[Any] = [
    [],
    {},
    {"train": [], "test": [PAIR]},
    {"train": [PAIR], "test": [{"input": [[1]]}]},
    {"train": [PAIR], "test": [{"input": [[1]], "output": [[10]]}]},
    {"train": [PAIR], "test": [{"input": [[True]], "output": [[1]]}]},
    {"train": [PAIR], "test": [{"input": [[1, 2], [3]], "output": [[1]]}]},
    {"train": [PAIR], "test": [{"input": [[1]] * 31, "output": [[1]]}]},
    {"train": [PAIR], "test": [{"input": [[1]], "output": []}]},
]


@pytest.mark.parametrize("task", [*map(json.dumps, BROKEN), '{"train": [', "[" * 9999, "\ud800"])
def test_a_broken_task_is_reported_and_the_rest_goes_on(tmp_path: Path, task: str) -> None:
    shutil.copytree(DATA / "data" / "evaluation", tmp_path / "evaluation")
    (tmp_path / "evaluation" / "aaaa0001.json").write_bytes(task.encode(errors="surrogatepass"))
    names, broken = read_all("arc-agi-2", tmp_path)
    assert names == ["arc-agi-2/aaaa0002"]
    assert [each.name for each in broken] == ["aaaa0001"]
    assert "aaaa0001.json" in broken[0].reason


def test_a_folder_without_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"data/evaluation/\*\.json"):
        read_all("arc-agi-2", tmp_path)
    about = catalog.load("arc-agi-2").about
    assert (about.size, about.variants) == (120, ("evaluation", "training"))


def test_the_real_samples_are_whole() -> None:
    for split in ("evaluation", "training"):
        assert len(drafts("arc-agi-2", sample("arc-agi-2"), variant=split)) == 12
