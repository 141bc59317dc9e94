"""Scripts are read with the line of every mistake, and found by what a conversation began with."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from benchyard.errors import UsageError
from benchyard.scripted_model import RunningModel, Script, ScriptStep, scripts
from tests.scripted_model.asking import DIALECTS, ask, body, path, said

FILE = """\
scripts:
  - name: bug
    match: "Fix   the\\n bug"
    steps:
      - shell: ls
      - {status: 429, retry_after: 1}
      - tool: write_file
        arguments: {path: x}
        latency: 0.5
  - final: nothing known
"""


def test_a_file_says_what_python_says(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(FILE)
    steps = (
        ScriptStep(shell="ls"),
        ScriptStep(status=429, retry_after=1),
        ScriptStep(tool="write_file", arguments={"path": "x"}, latency=0.5),
    )
    expected = (Script(name="bug", match="Fix   the\n bug", steps=steps), Script(final="nothing known"))
    assert scripts.read(file) == expected
    file.write_text(scripts.dump(expected))
    assert scripts.read(file) == expected


@pytest.mark.parametrize(
    ("text", "said_of_it"),
    [
        ("scripts: [{steps: [{shel: ls}]}]", "did you mean `shell`"),
        ("scripts:\n  - steps:\n      - {text: a, drop: true}", "s.yaml:3.*one answer or one fault"),
        ("scripts: [{steps: [{latency: 1}]}]", "give one of `text`"),
        ("scripts: [{steps: [{status: 200}]}]", "greater than or equal to 400"),
        ("scripts: [{regex: '('}]", "not a valid regular expression"),
        ("scripts: [{match: a, regex: b}]", "not both"),
        ("scripts: [{steps: [{text: a, usage: {input_tokens: 1, cached_tokens: 2}}]}]", "must cover"),
        ("scripts: [", "s.yaml"),
        ("steps: []", "scripts: this is missing"),
    ],
)
def test_a_mistake_is_pointed_at(text: str, said_of_it: str, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=said_of_it):
        scripts.read(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.yaml"):
        scripts.read(tmp_path / "absent.yaml")


def test_a_mistake_in_python_is_refused_before_anything_starts() -> None:
    with pytest.raises(ValidationError, match="nonsense"):
        RunningModel({"nonsense": 1})


GIVEN: list[dict[str, Any]] = [
    {"final": "the default"},
    {"match": 'Fix the\n"bug" in  days.py', "final": "by a piece"},
    {"regex": r"scenario \d+$", "final": "by an expression"},
]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_prompt_chooses_the_script(dialect: str) -> None:
    prompts = {
        "You must: Fix the bug\n\nin days.py, now": "by a piece",
        '"Fix the \\"bug\\" in days.py"': "by a piece",
        "this is scenario 12": "by an expression",
        "this is scenario twelve": "the default",
    }
    with RunningModel(GIVEN) as model:
        for prompt, expected in prompts.items():
            for results in (0, 3):
                answer = ask(model.url, dialect, prompt, results=results).json()
                assert said(dialect, answer).text == expected


def test_notes_around_a_prompt_do_not_hide_it_and_later_words_are_not_a_prompt() -> None:
    with RunningModel(GIVEN) as model:
        sent = body("responses", "<environment>notes</environment>")
        prompt = {"type": "input_text", "text": "Fix the bug in days.py"}
        sent["input"] += [{"type": "message", "role": "user", "content": [prompt]}]
        assert said("responses", post(model, sent)).text == "by a piece"
        spoken = {"role": "assistant", "content": "I did."}
        sent = body("chat", "Hello")
        sent["messages"] += [spoken, {"role": "user", "content": "Fix the bug in days.py"}]
        assert said("chat", post(model, sent)).text == "the default"


def test_a_text_that_a_user_answers_leads_on_too() -> None:
    given = {"steps": [{"text": "What then?"}, {"shell": "ls"}]}
    with RunningModel(given) as model:
        sent = body("chat", "Hello")
        assert said("chat", post(model, sent)).text == "What then?"
        sent["messages"] += [
            {"role": "assistant", "content": "What then?"},
            {"role": "user", "content": "ls"},
        ]
        assert said("chat", post(model, sent)).calls == [("bash", {"command": "ls"})]


def test_without_any_script_there_is_a_final_text() -> None:
    with RunningModel() as model:
        assert said("chat", ask(model.url, "chat", "Hello").json()).text == Script().final


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_request_without_tools_asks_for_a_title(dialect: str) -> None:
    with RunningModel(GIVEN) as model:
        answer = ask(model.url, dialect, "this is scenario 12", tools=False).json()
        assert said(dialect, answer).text == "A short title"
        assert [entry.is_title for entry in model.ledger.entries] == [True]
        assert model.ledger.calls() == []
        assert model.ledger.calls(titles=True) == model.ledger.entries


def test_a_title_that_must_be_json_is_json() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "n": {"type": "integer"}}}
    with RunningModel() as model:
        sent = body("gemini", "route", tools=False)
        sent["generationConfig"] = {"responseMimeType": "application/json", "responseJsonSchema": schema}
        assert said("gemini", post(model, sent, "gemini")).text == '{"a": "x", "n": 0}'


def test_a_script_may_play_where_there_are_no_tools() -> None:
    with RunningModel({"without_tools": True, "steps": [{"text": "one"}, {"text": "two"}]}) as model:
        sent = body("chat", "Hello", tools=False)
        assert said("chat", post(model, sent)).text == "one"
        sent["messages"] += [{"role": "assistant", "content": "one"}, {"role": "user", "content": "and?"}]
        assert said("chat", post(model, sent)).text == "two"
        assert not any(entry.is_title for entry in model.ledger.entries)


def post(model: RunningModel, sent: dict[str, Any], dialect: str | None = None) -> Any:
    dialect = dialect or ("responses" if "input" in sent else "chat")
    response = httpx.post(model.url + path(dialect), json=sent, timeout=60)
    assert response.status_code == 200
    return response.json()
