"""Folders of benchmarks."""

from pathlib import Path

import pytest

from benchyard.benchmarks.files import benchmark_file
from benchyard.benchmarks.files.benchmark_file import NamedScenario
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.errors import UsageError
from tests.benchmarks.writer import folder, put


def benchmark(place: Path, scenarios: str, more: str = "") -> Path:
    folder(place / "one")
    folder(place / "deep/two", "name: two\nscorers: [{name: a, type: command_scorer, command: 'true'}]\n")
    put(place, "benchmark.yaml", f"name: all\n{more}scenarios:\n{scenarios}")
    return place


def test_own_and_other_scenarios_are_mixed_in_order(tmp_path: Path) -> None:
    made = benchmark(
        tmp_path,
        "  - one\n  - id: scn_1\n  - path: deep/two\n  - name: quickstart/fix-a-bug\n",
        "description: d\n",
    )
    draft = benchmark_file.read_benchmark(made)
    one, known, two, named = draft.scenarios
    assert isinstance(one, ScenarioDraft)
    assert isinstance(two, ScenarioDraft)
    assert (one.request.name, two.request.name) == ("a task", "two")
    assert known == NamedScenario("scn_1", None, f"{made / 'benchmark.yaml'}:5")
    assert named == NamedScenario(None, "quickstart/fix-a-bug", f"{made / 'benchmark.yaml'}:7")
    assert (draft.request.name, draft.request.description) == ("all", "d")


@pytest.mark.parametrize(
    ("scenarios", "line", "said"),
    [
        ("  - missing\n", 3, "there is no folder missing"),
        ("  - ../one\n", 3, "inside the folder"),
        ("  - one\n  - {id: a, name: b}\n", 4, "one of `path`, `id` and `name`"),
        ("  - one\n  - {}\n", 4, "one of `path`, `id` and `name`"),
        ("  - one\n  - one\n", 4, "has the name 'a task' too"),
        ("  - one\n  - pth: two\n", 4, "did you mean `path`?"),
        ("  - one\nscenario: x\n", 4, "did you mean `scenarios`?"),
    ],
)
def test_a_mistake_is_reported_with_its_line(tmp_path: Path, scenarios: str, line: int, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        benchmark_file.read_benchmark(benchmark(tmp_path, scenarios))
    assert f"benchmark.yaml:{line}: " in caught.value.message
    assert said in caught.value.message


def test_a_mistake_in_a_scenario_is_reported_with_its_own_file(tmp_path: Path) -> None:
    made = benchmark(tmp_path, "  - deep/two\n")
    put(made, "deep/two/scenario.yaml", "name: two\nscorers: []\n")
    with pytest.raises(UsageError, match=r"deep/two/scenario.yaml:2: scorers: "):
        benchmark_file.read_benchmark(made)


def test_a_scenario_that_is_a_link_out_is_refused(tmp_path: Path) -> None:
    folder(tmp_path / "outside")
    made = benchmark(tmp_path / "it", "  - linked\n")
    (made / "linked").symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match=r"benchmark.yaml:3: .*leads out"):
        benchmark_file.read_benchmark(made)


def test_folder_without_a_benchmark_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="benchyard benchmark new"):
        benchmark_file.read_benchmark(tmp_path)
