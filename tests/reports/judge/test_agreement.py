"""Agreement of judges with people: published values, small numbers, disputes."""

import pytest

from benchyard.models.reports.judgements import JudgementView, JudgeUsage
from benchyard.models.results.annotations import PersonLabel
from benchyard.reports.judge.agreement import agreements, cohens_kappa

CALL, PLAN, GOAL = "invalid-call", "plan-not-followed", "wrong-goal"


def judged(trial: str, category: str, **fields: object) -> JudgementView:
    known = {"run_id": "jdr_1", "create_time_ms": 1, "provider": "anthropic", "model": "claude", **fields}
    told = {"instructions": "a", "evidence": "b", "explanation": "c", "usage": JudgeUsage()}
    return JudgementView.model_validate({"trial_id": trial, "category": category, **told, **known})


def label(value: str, key: str = "key_1", name: str = "category") -> PersonLabel:
    return PersonLabel(name=name, value=value, key_id=key, key_name=key, time_ms=1)


def test_kappa_is_that_of_the_books() -> None:
    """Fleiss, Levin and Paik, table 18.1: 0.676 with a standard error of 0.087."""
    cells = {"aa": 75, "ab": 1, "ac": 4, "ba": 5, "bb": 4, "bc": 1, "cc": 10}
    kappa = cohens_kappa([(pair[0], pair[1]) for pair, count in cells.items() for _ in range(count)])
    assert kappa is not None
    assert kappa.value == pytest.approx(0.6765, abs=1e-4)
    assert kappa.low is not None
    assert kappa.high is not None
    assert (kappa.high - kappa.low) / 2 / 1.959964 == pytest.approx(0.0877, abs=1e-3)


def test_kappa_of_chance_and_of_perfect_raters() -> None:
    chance = cohens_kappa([(a, b) for a in "xy" for b in "xy"] * 10)
    assert chance is not None
    assert chance.value == 0.0
    perfect = cohens_kappa([("x", "x"), ("y", "y")] * 10)
    assert perfect is not None
    assert (perfect.value, perfect.low, perfect.high) == (1.0, 1.0, 1.0)
    assert cohens_kappa([("x", "x")] * 10) is None
    assert cohens_kappa([]) is None


def test_agreement_counts_trials_with_both_and_names_the_others() -> None:
    judgements = [
        judged("t1", CALL),
        judged("t2", CALL),
        judged("t3", PLAN),
        judged("t4", GOAL),
        judged("t5", CALL),
    ]
    labels = {
        "t1": [label(CALL), label(PLAN, name="other")],
        "t2": [label(PLAN), label(PLAN, "key_2"), label(CALL, "key_3")],
        "t3": [label(PLAN), label(GOAL, "key_2")],
        "t4": [label("my own word")],
        "t9": [label(CALL)],
    }
    (found,) = agreements(judgements, labels, "category")
    assert (found.n, found.n_agree, found.agreement) == (2, 1, 0.5)
    assert (found.n_disputed, found.n_other_values) == (1, 1)
    assert [(each.trial_id, each.judge, each.people) for each in found.disagreements] == [("t2", CALL, PLAN)]
    assert found.kappa is not None
    assert found.kappa_low is None
    assert found.note is not None
    assert "too few" in found.note


def test_each_judge_is_told_apart_and_stale_judgements_do_not_count() -> None:
    labels = {"t1": [label(CALL)], "t2": [label(PLAN)]}
    judgements = [
        judged("t1", CALL),
        judged("t2", CALL, is_stale=True),
        judged("t1", PLAN, model="gpt"),
        judged("t2", PLAN, model="gpt"),
    ]
    first, second = agreements(judgements, labels, "category")
    assert (first.model, first.n, first.n_agree, first.kappa) == ("claude", 1, 1, None)
    assert (second.model, second.n, second.n_agree) == ("gpt", 2, 1)
    assert agreements(judgements, {}, "category") == []
