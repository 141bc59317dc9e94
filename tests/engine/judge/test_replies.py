"""Answers of a judge are as hostile as what it judged: limits, categories, and quotes that are looked up."""

import json
from typing import Any

import pytest

from benchyard.engine.judge.instructions import MOST_CITATIONS, MOST_EXPLANATION, MOST_QUOTE
from benchyard.engine.judge.replies import MOST_REPLY, is_found, read_judge_reply
from benchyard.errors import UsageError

SHOWN = {"2": ["ls -la", "total 8\nREADME.md  setup.py"], "3": ['rg "days"', "bash: rg: command not found"]}
VALID: dict[str, Any] = {
    "category": "system-failure",
    "critical_step": 3,
    "explanation": "The search tool is missing.",
    "citations": [{"step": 3, "quote": "rg: command not found"}],
}


def read(**changes: Any) -> Any:
    return read_judge_reply(json.dumps({**VALID, **changes}), SHOWN, 3)


def test_a_valid_answer_keeps_what_was_found() -> None:
    answer = read()
    assert (answer.category, answer.critical_step, answer.n_false) == ("system-failure", 3, 0)
    assert [(each.step, each.quote) for each in answer.citations] == [(3, "rg: command not found")]


@pytest.mark.parametrize("around", ["{}", "Here it is:\n```json\n{}\n```\nDone.", "<think>hm</think>\n{}\n"])
def test_the_object_may_stand_among_other_words(around: str) -> None:
    text = around.replace("{}", json.dumps(VALID))
    assert read_judge_reply(text, SHOWN, 3).category == "system-failure"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"category": "agent-was-great"}, "category is none"),
        ({"category": None}, "category is missing"),
        ({"critical_step": 4}, "critical_step must be a number from 1 to 3, or null"),
        ({"critical_step": 0}, "critical_step must be"),
        ({"critical_step": "3"}, "critical_step is missing or of another type"),
        ({"critical_step": True}, "critical_step is missing or of another type"),
        ({"explanation": "  \x00 "}, "explanation is empty"),
        ({"citations": "step 3"}, "citations is missing"),
        ({"citations": [{"step": 3}]}, "citations is missing"),
    ],
)
def test_an_answer_that_is_not_valid_is_refused_in_our_words(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told) as caught:
        read(**changes)
    assert "great" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no JSON object"),
        ("} {", "no JSON object"),
        ("{not json}", "not one JSON object"),
        ('{"category": NaN}', "not one JSON object"),
        ("{" + '"a":{' * 5000 + "}" * 5001, "not one JSON object"),
        ("x" * (MOST_REPLY + 1), "too long"),
        ("{}", "category is missing"),
    ],
)
def test_text_that_is_no_answer_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        read_judge_reply(text, SHOWN, 3)


def test_quotes_that_are_not_in_their_step_are_dropped_and_counted() -> None:
    given = [
        {"step": 3, "quote": "rg: command not found"},
        {"step": 2, "quote": "rg: command not found"},
        {"step": 9, "quote": "rg: command not found"},
        {"step": 3, "quote": "all hidden tests passed"},
        {"step": 3, "quote": "rg"},
    ]
    answer = read(citations=given)
    assert [each.step for each in answer.citations] == [3]
    assert answer.n_false == 4


def test_citations_beyond_the_limit_count_as_false() -> None:
    given = [{"step": 3, "quote": "rg: command not found"}] * (MOST_CITATIONS + 2)
    answer = read(citations=given)
    assert (len(answer.citations), answer.n_false) == (1, 2)


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("total 8 README.md", True),
        ("total 8\\nREADME.md", True),
        ("total  8\n\nREADME.md", True),
        ("README.md setup.py", True),
        ("README.md ... setup.py", False),
        ("readme.md setup.py", False),
        ("README", False),
        ("", False),
        ("x" * (MOST_QUOTE + 1), False),
    ],
)
def test_a_quote_is_looked_up_word_for_word(quote: str, found: bool) -> None:
    assert is_found(quote, SHOWN["2"]) is found


def test_an_explanation_is_cut_and_cleaned() -> None:
    answer = read(explanation="a\u202eb\x1b[31m" + "c" * 5000 + "\ud800")
    assert len(answer.explanation) <= MOST_EXPLANATION
    assert answer.explanation.startswith("a b [31mccc")
    assert read(explanation="half \ud800 pair").explanation == "half ? pair"
