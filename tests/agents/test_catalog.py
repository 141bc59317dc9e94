"""What a user can ask of an agent by name, and what is said of mistakes."""

from pathlib import Path

import pytest

from benchyard.agents import catalog
from benchyard.errors import UsageError
from benchyard.testing.contracts.agent import task


def refused(name: str, **kwargs: str) -> str:
    with pytest.raises(UsageError) as caught:
        catalog.make(name, kwargs)
    assert len(caught.value.message) < 1000
    return caught.value.message


def test_the_agents_that_come_with_us() -> None:
    public = ["claude-code", "codex", "gemini-cli", "goose", "mini-swe-agent", "opencode"]
    assert catalog.names() == sorted(["command", "nop", "oracle", *public])


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    assert "did you mean 'oracle'" in refused("oracel")
    assert "no agent is called 'public'" in refused("public")
    assert "claude-code, codex, command" in refused("x" * 5000)
    assert "no agent is called 'registered'" in refused("registered", run="x")


def test_kwargs_are_checked() -> None:
    assert "the kwarg 'run' is missing" in refused("command")
    assert "run" in refused("command", run=" \n")
    assert "run" in refused("command", run="a\0b")
    assert "run" in refused("command", run="x" * 65537)
    assert "did you mean 'run'" in refused("command", ru="x")
    assert "those it takes: none" in refused("nop", run="x")
    for turns in ("0", "-1", "many", "1e9", ""):
        assert "max_turns" in refused("claude-code", max_turns=turns)
    assert "those it takes: none" in refused("codex", max_turns="5")


def test_a_command_that_names_a_model_needs_one() -> None:
    agent = catalog.make("command", {"run": "solve --model {model}"})
    agent.check("m")
    for model in (None, ""):
        with pytest.raises(UsageError, match=r"\{model\}"):
            agent.check(model)
        with pytest.raises(UsageError, match=r"\{model\}"):
            agent.launch(task(model=model))
    catalog.make("command", {"run": "echo ${model}"}).check(None)


def test_a_misspelt_placeholder_is_refused() -> None:
    def refused(run: str) -> str:
        with pytest.raises(UsageError) as told:
            catalog.make("command", {"run": run}).check("m")
        return told.value.message

    assert "did you mean 'prompt_file'?" in refused("solve {promt_file}")
    assert "known are logs, model, prompt_file, workdir" in refused("solve {quite_another}")
    for fine in ("awk '{ print }'", "echo ${HOME} {a,b} {}", "solve {prompt_file} {logs} {workdir} {model}"):
        catalog.make("command", {"run": fine}).check("m")


def test_agents_of_others_are_found_by_their_entry_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_own-1.0.dist-info").mkdir()
    (tmp_path / "their_own-1.0.dist-info/METADATA").write_text("Name: their-own\nVersion: 1.0\n")
    (tmp_path / "their_own-1.0.dist-info/entry_points.txt").write_text(
        "[benchyard.agents]\ntheirs = benchyard.agents.command:CommandAgent\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "theirs" in catalog.names()
    assert catalog.make("theirs", {"run": "true"}).launch(task()) is not None
