"""Keys of the caller become secrets, against a real server."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchyard.cli.notices import tell
from benchyard.client import Client
from benchyard.client.provider_keys import with_known_keys


def body(*agents: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"type": "benchmark", "agent_configs": list(agents)}}


def secrets_of(made: dict[str, Any]) -> list[dict[str, str] | None]:
    return [each.get("agent_environment", {}).get("secrets") for each in made["spec"]["agent_configs"]]


@pytest.fixture
def environ(tmp_path: Path, client: Client) -> dict[str, str]:
    for each in client.secrets.list():
        if each.name.startswith("BMJ_"):
            client.secrets.delete(each.name)
    return {"HOME": str(tmp_path)}


def test_a_key_becomes_a_secret_and_a_changed_one_changes_it(
    client: Client, environ: dict[str, str], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    environ["ANTHROPIC_API_KEY"] = "sk-first-value"
    asked = body({"name": "claude-code"}, {"name": "goose"}, {"name": "codex"}, {"name": "oracle"})
    made = with_known_keys(client, asked, environ, tell)
    named = {"ANTHROPIC_API_KEY": "BMJ_ANTHROPIC_API_KEY"}
    assert secrets_of(made) == [named, named, None, None]
    said = capfd.readouterr().err
    assert "made the secret BMJ_ANTHROPIC_API_KEY" in said

    with_known_keys(client, body({"name": "claude-code"}), environ, tell)
    assert capfd.readouterr().err == "", "the same key is not told again"

    before = client.secrets.get("BMJ_ANTHROPIC_API_KEY")
    environ["ANTHROPIC_API_KEY"] = "sk-second-value"
    with_known_keys(client, body({"name": "claude-code"}), environ, tell)
    changed = capfd.readouterr().err
    assert "updated the secret BMJ_ANTHROPIC_API_KEY" in changed
    assert client.secrets.get("BMJ_ANTHROPIC_API_KEY").update_time_ms > before.update_time_ms

    file = tmp_path / ".config/benchyard/job-keys.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert "value" not in said + changed + file.read_text()
    assert len(json.loads(file.read_text())) == 1


def test_a_secret_that_somebody_else_changed_is_set_again(
    client: Client, environ: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    environ["OPENAI_API_KEY"] = "mine"
    with_known_keys(client, body({"name": "codex"}), environ, tell)
    client.secrets.update("BMJ_OPENAI_API_KEY", "theirs")
    capfd.readouterr()
    with_known_keys(client, body({"name": "codex"}), environ, tell)
    assert "updated the secret" in capfd.readouterr().err


def test_a_secret_of_the_server_is_used_where_the_caller_has_no_key(
    client: Client, environ: dict[str, str]
) -> None:
    client.secrets.create("BMJ_GEMINI_API_KEY", "there")
    made = with_known_keys(client, body({"name": "gemini-cli"}), environ, tell)
    assert secrets_of(made) == [{"GEMINI_API_KEY": "BMJ_GEMINI_API_KEY"}]


def test_keys_given_by_the_user_are_left_alone(client: Client, environ: dict[str, str]) -> None:
    environ["OPENAI_API_KEY"] = "mine"
    given = {"name": "codex", "agent_environment": {"environment_variables": {"OPENAI_API_KEY": "x"}}}
    assert with_known_keys(client, body(given), environ, tell) == body(given)
    assert [each.name for each in client.secrets.list() if each.name.startswith("BMJ_")] == []


def test_keys_given_to_an_earlier_job_are_checked_again(client: Client, environ: dict[str, str]) -> None:
    environ["OPENAI_API_KEY"] = "mine"
    before = {"name": "codex", "agent_environment": {"secrets": {"OPENAI_API_KEY": "BMJ_OPENAI_API_KEY"}}}
    assert with_known_keys(client, body(before), environ, tell) == body(before)
    assert client.secrets.get("BMJ_OPENAI_API_KEY").name == "BMJ_OPENAI_API_KEY"


def test_a_spoilt_or_unwritable_memory_only_means_sending_again(
    client: Client, environ: dict[str, str], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    environ["OPENAI_API_KEY"] = "mine"
    file = tmp_path / ".config/benchyard/job-keys.json"
    file.parent.mkdir(parents=True)
    file.write_text("[not json")
    with_known_keys(client, body({"name": "codex"}), environ, tell)
    assert len(json.loads(file.read_text())) == 1
    environ["XDG_CONFIG_HOME"] = str(file)
    capfd.readouterr()
    with_known_keys(client, body({"name": "codex"}), environ, tell)
    assert "cannot be written" in capfd.readouterr().err
