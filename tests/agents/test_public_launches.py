"""How public agents are started: their environment, their settings, and the prompt, whatever it holds."""

import json
import platform
import shlex
from pathlib import Path
from typing import Any

import pytest

from benchyard.agents import catalog
from benchyard.agents.base import Launch
from benchyard.agents.own_agent import InstalledAgent
from benchyard.agents.public_agent import PublicAgent, check_version
from benchyard.errors import NotSupported, UsageError
from benchyard.hosts.kits import Kit
from benchyard.testing.contracts.agent import access, task

PUBLIC = [name for name in catalog.names() if catalog.keys_of(name)]
LONG = "é" * 250_000
URL = "http://127.0.0.1:9/p"
TOKEN = access().token


def made(name: str, **kwargs: str) -> PublicAgent[Any]:
    agent = catalog.make(name, kwargs)
    assert isinstance(agent, PublicAgent)
    agent.installed = InstalledAgent((Kit(Path("/kits/x"), "/opt/benchyard/agents/x"),))
    return agent


def launched(name: str, provider: str, model: str = "m", **more: Any) -> Launch:
    kwargs, is_online = more.pop("kwargs", {}), more.pop("is_online", False)
    way = access(url=URL, provider=provider, model=model, **more)
    launch = made(name, **kwargs).launch(task(access=way, is_online=is_online))
    assert launch is not None
    return launch


@pytest.mark.parametrize("name", PUBLIC)
def test_a_prompt_of_any_length_is_neither_an_argument_nor_a_variable(name: str) -> None:
    launch = made(name).launch(task(prompt=LONG))
    assert launch is not None
    assert len(launch.command.encode()) < 10_000
    assert all(len(value.encode()) < 10_000 for value in launch.env.values())


@pytest.mark.parametrize("name", PUBLIC)
def test_agent_that_can_continue_is_launched_to_continue(name: str) -> None:
    agent = made(name)
    first, again = agent.launch(task()), agent.launch(task(round=2, continues=True))
    assert first is not None
    assert (first != again) is agent.can_continue
    assert agent.launch(task(round=2)) == first, "a fresh call is what the first one was"


@pytest.mark.parametrize("name", PUBLIC)
def test_the_token_is_in_the_environment_and_nowhere_else(name: str) -> None:
    launch = made(name).launch(task())
    assert launch is not None
    assert TOKEN in launch.env.values()
    assert TOKEN not in launch.command
    assert all(TOKEN.encode() not in content for content in launch.files.values())


@pytest.mark.parametrize("name", PUBLIC)
def test_a_model_is_one_word_whatever_it_is_called(name: str) -> None:
    evil = 'm\'; touch /tmp/evil; "$(touch /tmp/evil)" `x` \\ {a}'
    launch = made(name).launch(task(access=access(model=evil)))
    assert launch is not None
    assert "touch" not in [word for word in shlex.split(launch.command) if word != evil]


@pytest.mark.parametrize("name", PUBLIC)
def test_without_an_install_or_a_way_to_a_model_there_is_no_launch(name: str) -> None:
    with pytest.raises(UsageError, match="not installed"):
        catalog.make(name, {}).launch(task())
    with pytest.raises(UsageError, match="gateway"):
        made(name).launch(task(access=None))


def test_claude_code_uses_its_one_model_for_everything() -> None:
    launch = launched("claude-code", "anthropic", "claude-x", kwargs={"max_turns": "7"})
    assert launch.env["ANTHROPIC_BASE_URL"] == URL
    assert launch.env["ANTHROPIC_API_KEY"] == TOKEN
    assert launch.env["IS_SANDBOX"] == "1"
    assert [name for name, value in launch.env.items() if value == "claude-x"] == [
        "ANTHROPIC_DEFAULT_OPUS_MODEL",
        "ANTHROPIC_DEFAULT_SONNET_MODEL",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL",
        "ANTHROPIC_SMALL_FAST_MODEL",
        "CLAUDE_CODE_SUBAGENT_MODEL",
    ]
    wanted = "-p --verbose --output-format stream-json --permission-mode bypassPermissions --model claude-x"
    offline = "--disallowedTools WebSearch WebFetch"
    assert f"{wanted} --max-turns 7 {offline} < /run/benchyard/prompt.md" in launch.command
    assert "--max-turns" not in launched("claude-code", "anthropic").command


def test_claude_code_with_a_subscription_says_so_itself() -> None:
    launch = launched("claude-code", "anthropic", variable="CLAUDE_CODE_OAUTH_TOKEN")
    assert launch.env["CLAUDE_CODE_OAUTH_TOKEN"] == TOKEN
    assert "ANTHROPIC_API_KEY" not in launch.env
    assert "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS" not in launch.env
    assert "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS" in launched("claude-code", "mine").env


@pytest.mark.parametrize("provider", ["openai", "mine"])
def test_codex_gets_a_provider_that_speaks_responses(provider: str) -> None:
    launch = launched("codex", provider, "gpt-x")
    assert launch.env == {"OPENAI_API_KEY": TOKEN}
    words = shlex.split(launch.command)
    settings = next(word for word in words if word.startswith("model_providers."))
    assert f'base_url="{URL}/v1"' in settings
    assert 'wire_api="responses"' in settings
    assert "supports_websockets=false" in settings
    assert words[words.index("-m") + 1] == "gpt-x"
    end = words.index("status=$?")
    assert words[end - 3 : end] == ["-", "<", "/run/benchyard/prompt.md"]
    # What is printed afterwards does not change how it ended.
    assert words[-2:] == ["exit", "$status"]
    assert "--disable plugins" in launch.command


@pytest.mark.parametrize(
    ("provider", "root", "called"),
    [
        ("anthropic", "v1", "anthropic"),
        ("openai", "v1", "openai"),
        ("google", "v1beta", "google"),
        ("openrouter", "v1", "gateway"),
    ],
)
def test_opencode_reaches_every_provider_by_its_own_path(provider: str, root: str, called: str) -> None:
    launch = launched("opencode", provider, "a/m", kwargs={"max_turns": "4"})
    settings = json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])
    assert settings["model"] == settings["small_model"] == f"{called}/a/m"
    assert settings["provider"][called]["options"]["baseURL"] == f"{URL}/{root}"
    assert settings["provider"][called]["models"] == {"a/m": {}}
    assert ("npm" in settings["provider"][called]) == (called == "gateway")
    assert settings["agent"]["build"]["steps"] == 4
    assert launch.env["BENCHYARD_TOKEN"] == TOKEN
    assert "ripgrep" in launch.command
    assert "--title benchyard" in launch.command


@pytest.mark.parametrize(
    ("provider", "called", "host", "key"),
    [
        ("anthropic", "anthropic", "ANTHROPIC_HOST", "ANTHROPIC_API_KEY"),
        ("openai", "openai", "OPENAI_HOST", "OPENAI_API_KEY"),
        ("google", "google", "GOOGLE_HOST", "GOOGLE_API_KEY"),
        ("mine", "openai", "OPENAI_HOST", "OPENAI_API_KEY"),
    ],
)
def test_goose_reaches_every_provider_by_its_host(provider: str, called: str, host: str, key: str) -> None:
    launch = launched("goose", provider, kwargs={"max_turns": "4"})
    assert launch.env["GOOSE_PROVIDER"] == called
    assert launch.env["GOOSE_MODEL"] == "m"
    assert (launch.env[host], launch.env[key]) == (URL, TOKEN)
    assert launch.env["GOOSE_DISABLE_SESSION_NAMING"] == "true"
    assert "--max-turns 4 -i /run/benchyard/prompt.md" in launch.command


def test_gemini_cli_gets_its_kind_of_login() -> None:
    launch = launched("gemini-cli", "google", "gemini-x", kwargs={"max_turns": "4"})
    assert launch.env["GEMINI_API_KEY"] == TOKEN
    assert launch.env["GOOGLE_GEMINI_BASE_URL"] == URL
    settings = json.loads(next(word for word in shlex.split(launch.command) if word.startswith('{"')))
    assert settings["security"]["auth"]["selectedType"] == "gemini-api-key"
    assert settings["model"] == {"maxSessionTurns": 4}
    assert "--yolo -m gemini-x -o stream-json < /run/benchyard/prompt.md" in launch.command


@pytest.mark.parametrize(
    ("provider", "model", "base", "key"),
    [
        ("openai", "openai/m", f"{URL}/v1", "OPENAI_API_KEY"),
        ("mine", "openai/m", f"{URL}/v1", "OPENAI_API_KEY"),
        ("anthropic", "anthropic/m", URL, "ANTHROPIC_API_KEY"),
    ],
)
def test_mini_swe_agent_has_all_in_a_file(provider: str, model: str, base: str, key: str) -> None:
    launch = launched("mini-swe-agent", provider, kwargs={"max_turns": "4"})
    ((path, content),) = launch.files.items()
    settings = json.loads(content)
    assert f"-c mini.yaml -c {path} " in launch.command
    assert settings["run"]["task"] == task().prompt
    assert settings["agent"] == {"agent_class": "default", "cost_limit": 0, "step_limit": 4}
    assert settings["model"]["model_name"] == model
    assert settings["model"]["model_kwargs"]["api_base"] == base
    assert launch.env[key] == TOKEN


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("claude-code", "@anthropic-ai/claude-code-linux-{m}@2.1.325"),
        ("codex", "@openai/codex@0.166.0-linux-{m}"),
        ("opencode", "opencode-linux-{m}@1.18.33"),
        ("gemini-cli", "@google/gemini-cli@0.61.0"),
        ("mini-swe-agent", "mini-swe-agent==2.4.6"),
    ],
)
def test_packages_are_those_of_the_machine(name: str, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = made(name)
    for machine, called in (("x86_64", "x64"), ("aarch64", "arm64")):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        assert agent.package(agent.default_version).spec == spec.format(m=called)


def test_a_machine_that_nothing_is_published_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    goose = made("goose")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert goose.package("1.52.0").spec == "@aaif/goose-binary-linux-x64@1.52.0"
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(NotSupported, match="x86-64 only"):
        goose.package("1.52.0")
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(NotSupported, match="riscv64"):
        made("codex").package("1.0.0")


def test_versions_are_numbers_and_never_something_else_to_fetch() -> None:
    for version in ("1.2", "1.2.3", "0.166.0-alpha.1", "2.4.6rc1", "1.2.3+build"):
        check_version("codex", version)
    for version in (
        "",
        "x",
        "1",
        "user/repo",
        "1.2.3/x",
        "../x",
        "1.2 3",
        "1.2.3@x",
        "next",
        "1." + "1" * 300,
        "1.1" + "a" * 90 + "!",
    ):
        with pytest.raises(UsageError, match="not a valid version of agent"):
            check_version("codex", version)


@pytest.mark.parametrize(
    ("name", "provider", "told"),
    [
        ("claude-code", "anthropic", "WebSearch"),
        ("codex", "openai", "web_search"),
        ("gemini-cli", "google", "google_web_search"),
    ],
)
def test_a_provider_looks_nothing_up_for_an_agent_that_may_reach_nothing(
    name: str, provider: str, told: str
) -> None:
    assert told in launched(name, provider).command
    assert told not in launched(name, provider, is_online=True).command
