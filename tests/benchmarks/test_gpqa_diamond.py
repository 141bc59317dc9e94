"""GPQA Diamond: official columns, shuffled by a seed, and nothing shown that should not be."""

import csv
import random
from pathlib import Path

import pytest

from benchyard.benchmarks import catalog
from benchyard.errors import UsageError
from tests.benchmarks.reading import drafts, expected, read_all
from tests.benchmarks.samples.finding import OWN

DATA = OWN / "gpqa-diamond"
CANARY = "gpqa:0000:00000000-0000-0000-0000-000000000000"


def rows() -> list[dict[str, str]]:
    with (DATA / "questions.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def written(path: Path, *changed: dict[str, str]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows()[0])
        writer.writeheader()
        writer.writerows(changed)
    return path


def test_options_are_shuffled_as_simple_evals_does() -> None:
    generator = random.Random(0)
    for row, request in zip(rows(), drafts("gpqa-diamond", DATA), strict=True):
        order = generator.sample(range(4), 4)
        options = [row["Correct Answer"], *(row[f"Incorrect Answer {number}"] for number in (1, 2, 3))]
        prompt = request.input_context.problem_statement
        for letter, column in zip("ABCD", order, strict=True):
            assert f"\n{letter}) {options[column].strip()}\n" in prompt
        letter = "ABCD"[order.index(0)]
        assert expected(request) == {"letter": letter, "order": order, "seed": 0}
        assert request.reference_output == f"Answer: {letter}\n"
        metadata = request.metadata or {}
        assert metadata["option_order"] == "".join(map(str, order))
        assert (metadata["seed"], metadata["official_data"]) == ("0", "no")
        assert (metadata["category"], metadata["subdomain"]) == (row["High-level domain"], row["Subdomain"])
        assert row["Question"].strip() in prompt


def test_another_seed_is_another_set_of_scenarios() -> None:
    first, again, other = (drafts("gpqa-diamond", DATA, seed=seed) for seed in (7, 7, 8))
    assert first == again
    assert [request.name for request in first][:1] == ["gpqa-diamond/recOwn1-seed7"]
    assert not {request.name for request in first} & {request.name for request in other}
    assert {(request.metadata or {})["seed"] for request in other} == {"8"}


def test_every_place_is_right_about_as_often(tmp_path: Path) -> None:
    many = [{**rows()[0], "Record ID": f"rec{number}"} for number in range(400)]
    letters = [
        expected(request)["letter"] for request in drafts("gpqa-diamond", written(tmp_path / "a.csv", *many))
    ]
    assert all(70 <= letters.count(letter) <= 130 for letter in "ABCD")


def test_a_row_that_is_not_a_question_does_not_move_the_others(tmp_path: Path) -> None:
    first, second, third = rows()
    path = written(tmp_path / "a.csv", first, {**second, "Correct Answer": " "}, third, {**third})
    names, broken = read_all("gpqa-diamond", path)
    whole = {request.name: request for request in drafts("gpqa-diamond", DATA)}
    assert names == ["gpqa-diamond/recOwn1", "gpqa-diamond/recOwn3"]
    assert {name: expected(whole[name]) for name in names} == {
        request.name: expected(request)
        for request in drafts("gpqa-diamond", written(tmp_path / "b.csv", first, second, third))
        if request.name in names
    }
    assert [each.name for each in broken] == ["row 2", "gpqa-diamond/recOwn3"]
    assert "Correct Answer" in broken[0].reason


def test_neither_canary_nor_explanation_is_shown_to_anybody(tmp_path: Path) -> None:
    secret = {"Canary String": CANARY, "Explanation": "because of that"}
    for request in drafts(
        "gpqa-diamond", written(tmp_path / "a.csv", *({**row, **secret} for row in rows()))
    ):
        assert not any(text in request.model_dump_json() for text in secret.values())
    inside = {**rows()[0], "Question": f"What? {CANARY.upper()}"}
    names, broken = read_all("gpqa-diamond", written(tmp_path / "b.csv", inside))
    assert names == []
    assert "canary" in broken[0].reason
    assert CANARY not in broken[0].reason
    assert "What?" not in broken[0].reason


def test_a_file_with_the_official_name_must_be_the_official_one(tmp_path: Path) -> None:
    names, broken = read_all("gpqa-diamond", written(tmp_path / "gpqa_diamond.csv", *rows()))
    assert len(names) == 3
    assert "not the official file" in broken[0].reason
    assert broken[0].is_note, "its questions are imported"
    benchmark = catalog.load("gpqa-diamond")
    assert benchmark.about.not_for_publication
    assert getattr(benchmark.source, "gated", False)
    assert catalog.canonical_name("GPQA Diamond") == "gpqa-diamond"


def test_several_data_files_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "a.csv", *rows())
    written(tmp_path / "b.csv", *rows())
    with pytest.raises(UsageError, match="several"):
        read_all("gpqa-diamond", tmp_path)
    written(tmp_path / "gpqa_diamond.csv", *rows()[:1])
    assert len(read_all("gpqa-diamond", tmp_path)[0]) == 1
