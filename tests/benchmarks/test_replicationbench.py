"""ReplicationBench: papers and tasks in both forms, what they need, and nothing that tells the results."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchyard.benchmarks import catalog
from benchyard.errors import UsageError
from tests.benchmarks.reading import drafts, expected, read_all
from tests.benchmarks.samples.finding import OWN, sample

DATA = OWN / "replicationbench"


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text().splitlines()]


def written(folder: Path, papers: list[dict[str, Any]], tasks: list[dict[str, Any]]) -> Path:
    (folder / "papers-mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in papers))
    (folder / "tasks-mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in tasks))
    return folder


def test_a_paper_is_one_scenario_with_all_its_numeric_tasks() -> None:
    paper, survey = drafts("replicationbench", DATA)
    assert paper.name == "replicationbench/pendulum"
    assert expected(paper) == {
        "values": {"period": 2.0071, "energy": {"low": 0.0, "high": [4.9, 5.1]}},
        "tolerances": {"period": 0.001, "energy": {"low": 0, "high": [0.1, 0.1]}},
    }
    metadata = paper.metadata or {}
    assert (metadata["tasks"], metadata["unscored_tasks"], metadata["difficulty"]) == ("2", "1", "1.75")
    assert (metadata["kind"], metadata["year"], metadata["source"]) == ("paper", "2021", "expert")
    assert (metadata["needs"], metadata["text"]) == ("nothing from outside", "masked")
    assert paper.agent_timeout_sec == 6 * 3600
    needs = "data from outside: wget, 2512.5 MB (large); a GPU; browsing"
    assert (survey.metadata or {})["needs"] == needs
    assert (survey.metadata or {})["text"] == "not in the data"


def test_the_prompt_has_the_masked_text_the_tasks_and_the_form_of_the_answer() -> None:
    paper, survey = drafts("replicationbench", DATA)
    prompt = paper.input_context.problem_statement
    for text in (
        "The period is <masked>.",
        "Take g = 9.8",
        "TASK_ID: period",
        "TASK_ID: energy",
        "2. Give it in",
    ):
        assert text in prompt
    assert '{"period": 0, "energy": {"low": 0, "high": [0, 0]}}' in prompt
    assert "A dictionary with the keys: low, high" in prompt
    for text in ("2.0071", "4.9", "example.com/pendulum", "We find", "Plot it"):
        assert text not in prompt
    assert "https://example.com/a.fits, https://example.com/b.fits" in survey.input_context.problem_statement
    assert "example.com/code" not in survey.input_context.problem_statement


def test_a_task_is_a_scenario_with_what_it_builds_on() -> None:
    requests = drafts("replicationbench", DATA, variant="tasks")
    names = ["pendulum__period", "pendulum__energy", "big_survey__count"]
    assert [request.name for request in requests] == [f"replicationbench/{name}" for name in names]
    energy = requests[1]
    assert set(expected(energy)["values"]) == {"energy"}
    prompt = energy.input_context.problem_statement
    assert prompt.index("EARLIER TASK 1") < prompt.index("TASK_ID: period") < prompt.index("TASK_ID: energy")
    assert '{"energy": ' in prompt
    assert "2.0071" not in prompt
    assert (energy.metadata or {})["kind"] == "task"
    assert len(drafts("replicationbench", DATA, variant="all")) == 5


def test_values_are_read_as_they_are_or_as_json_text(tmp_path: Path) -> None:
    tasks = rows("tasks")
    for task in tasks:
        task["expected_output"] = json.loads(task["expected_output"])
        task["tolerance"] = json.loads(task["tolerance"])
    tasks[0]["instructions"] = "Compute the period."
    plain = drafts("replicationbench", written(tmp_path, rows("papers"), tasks), variant="all")
    hub = drafts("replicationbench", DATA, variant="all")
    assert [expected(request) for request in plain] == [expected(request) for request in hub]


def test_broken_rows_are_reported_and_the_rest_is_loaded(tmp_path: Path) -> None:
    papers, tasks = rows("papers"), rows("tasks")
    papers += [{"title": "no id"}, {**papers[0], "paper_id": "empty"}]
    tasks.append({**tasks[0], "task_id": "stray", "paper_id": "nowhere"})
    names, broken = read_all("replicationbench", written(tmp_path, papers, tasks))
    assert names == ["replicationbench/pendulum", "replicationbench/big_survey"]
    assert [each.name for each in broken] == ["papers-mine.jsonl row 3", "tasks-mine.jsonl row 5", "empty"]
    assert "no numeric task" in broken[-1].reason


def test_a_scored_task_without_a_description_counts(tmp_path: Path) -> None:
    tasks = rows("tasks")
    tasks[0]["description"] = ""
    paper, _ = drafts("replicationbench", written(tmp_path, rows("papers"), tasks))
    assert list(expected(paper)["values"]) == ["period", "energy"]
    assert (paper.metadata or {})["tasks"] == "2"


@pytest.mark.parametrize(
    "change",
    [
        {"task_id": "odd", "expected_output": "{1"},
        {"task_id": "odd", "expected_output": None, "description": 3},
        {"task_id": "", "paper_id": "pendulum"},
        {"task_id": "period"},
        {"task_id": "odd", "parents": 3},
    ],
)
def test_a_paper_with_a_broken_task_is_refused_whole(tmp_path: Path, change: dict[str, Any]) -> None:
    tasks = rows("tasks")
    tasks.append({**tasks[0], **change})
    data = written(tmp_path, rows("papers"), tasks)
    names, broken = read_all("replicationbench", data)
    assert names == ["replicationbench/big_survey"]
    assert [each.name for each in broken] == ["tasks-mine.jsonl row 5", "pendulum"]
    assert "row 5" in broken[1].reason


def test_no_paper_is_taken_from_a_file_of_tasks_that_breaks_off(tmp_path: Path) -> None:
    data = written(tmp_path, rows("papers"), rows("tasks")[:2])
    with (data / "tasks-mine.jsonl").open("a") as file:
        file.write('{"task_id": ')
    names, broken = read_all("replicationbench", data)
    assert names == []
    assert [each.name for each in broken] == ["tasks-mine.jsonl row 3", "pendulum", "big_survey"]


def test_data_sets_are_read_from_a_list_an_object_or_by_name(tmp_path: Path) -> None:
    papers = rows("papers")
    (one,) = (
        papers[1]["dataset"] if isinstance(papers[1]["dataset"], list) else json.loads(papers[1]["dataset"])
    )
    usual = drafts("replicationbench", DATA)[1]
    for given in (one, json.dumps(one), {"survey": one}, [one]):
        data = written(tmp_path, [papers[0], {**papers[1], "dataset": given}], rows("tasks"))
        found = drafts("replicationbench", data)[1]
        assert found.metadata == usual.metadata
        assert "DATASET" in found.input_context.problem_statement
    for wrong in (["here"], 7, "nowhere"):
        data = written(tmp_path, [papers[0], {**papers[1], "dataset": wrong}], rows("tasks"))
        names, broken = read_all("replicationbench", data)
        assert names == ["replicationbench/pendulum"]
        assert broken[0].name == "papers-mine.jsonl row 2"


def test_a_prompt_that_is_too_long_is_reported(tmp_path: Path) -> None:
    papers = rows("papers")
    papers[0]["full_text"] = "x" * 1024**2
    names, broken = read_all("replicationbench", written(tmp_path, papers, rows("tasks")))
    assert names == ["replicationbench/big_survey"]
    assert "letters" in broken[0].reason


def test_data_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match=r"papers\.jsonl"):
        read_all("replicationbench", tmp_path)
    assert catalog.canonical_name("ReplicationBench") == "replicationbench"


def test_the_real_samples_are_whole() -> None:
    assert len(drafts("replicationbench", sample("replicationbench"))) == 8
    assert len(drafts("replicationbench", sample("replicationbench"), variant="tasks")) == 43
