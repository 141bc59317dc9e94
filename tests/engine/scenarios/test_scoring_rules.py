"""How scenarios say how they are scored."""

import json
from typing import Any

import pytest

from benchyard.engine.scenarios.scoring_rules import check_path, check_weights, rules_from
from benchyard.errors import UsageError
from benchyard.models.scenarios import ScenarioOptions, ScoringContract


def contract(*weights: float) -> ScoringContract:
    functions = [
        {"name": f"s{at}", "weight": weight, "scorer": {"type": "command_scorer", "command": "true"}}
        for at, weight in enumerate(weights)
    ]
    return ScoringContract.model_validate({"scoring_function_parameters": functions})


@pytest.mark.parametrize("weights", [(1.0,), (0.1,) * 10, (0.5, 0.5, 0.0), (0.3333334, 0.3333333, 0.3333333)])
def test_weights_that_add_up(weights: tuple[float, ...]) -> None:
    check_weights(contract(*weights))


@pytest.mark.parametrize("weights", [(0.5,), (0.5, 0.6), (0.0,), (0.5, 0.49999)])
def test_weights_that_do_not_are_named(weights: tuple[float, ...]) -> None:
    with pytest.raises(UsageError, match="add up to"):
        check_weights(contract(*weights))


def test_metadata_says_what_fields_could() -> None:
    metadata = {
        "benchyard.scoring": "answer",
        "benchyard.answer_paths": json.dumps(["out", "/srv/x"]),
        "benchyard.nop_score": "0.25",
        "benchyard.scoring_network": "host",
        "benchyard.scoring_secrets": json.dumps({"TOKEN": "JUDGE"}),
        "other": "kept",
    }
    assert rules_from(metadata, ScenarioOptions()) == {
        "scoring_isolation": "answer",
        "answer_paths": ["out", "/srv/x"],
        "nop_score": 0.25,
        "scoring_network": "host",
        "scoring_secrets": {"TOKEN": "JUDGE"},
    }


def test_fields_win_over_metadata() -> None:
    found = rules_from({"benchyard.scoring": "live"}, ScenarioOptions(scoring_isolation="clean"))
    assert found == {"scoring_isolation": "clean"}


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"benchyard.scoring": "sometimes"}, "scoring_isolation"),
        ({"benchyard.scoring": "answer"}, "answer_paths"),
        ({"benchyard.scoring": "answer", "benchyard.answer_paths": "out"}, "must be JSON"),
        ({"benchyard.scoring": "answer", "benchyard.answer_paths": '"out"'}, "answer_paths"),
        ({"benchyard.scoring": "answer", "benchyard.answer_paths": '["../out"]'}, r"`\.\.`"),
        ({"benchyard.nop_score": "2"}, "nop_score"),
        ({"benchyard.nop_score": "NaN"}, "nop_score"),
    ],
)
def test_invalid_rules_are_refused(metadata: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        rules_from(metadata, ScenarioOptions())


@pytest.mark.parametrize("path", ["", "a/../b", "..", "/", ".", "//", "./", "a\0b", "x" * 5000])
def test_paths_that_are_none(path: Any) -> None:
    with pytest.raises(UsageError, match="paths"):
        check_path(path, "paths")


@pytest.mark.parametrize("path", ["a", "/a/b", "a..b", "..a", "./a", "a b", "ü"])
def test_paths_that_are(path: str) -> None:
    check_path(path, "paths")
