"""From what people type after an agent's name to who is asked for which model, with which key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchyard.agents import catalog, providers
from benchyard.agents.base import ModelChoice
from benchyard.agents.providers import STANDARD, choice_by_name, choose, missing_keys
from benchyard.errors import UsageError


def refused(agent: str, offered: tuple[str, ...], model: str | None, *upstreams: str) -> str:
    with pytest.raises(UsageError) as caught:
        choose(agent, offered, model, upstreams)
    assert len(caught.value.message) < 1000
    return caught.value.message


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("anthropic/claude-x", "anthropic", "claude-x"),
        ("openai/a/b", "openai", "a/b"),
        ("google/gemini-9", "google", "gemini-9"),
        ("gemini/gemini-9", "google", "gemini-9"),
        ("claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ("gpt-5.5", "openai", "gpt-5.5"),
        ("o3", "openai", "o3"),
        ("o4-mini", "openai", "o4-mini"),
        ("codex-mini-latest", "openai", "codex-mini-latest"),
        ("chatgpt-4o-latest", "openai", "chatgpt-4o-latest"),
        ("gemini-2.5-pro", "google", "gemini-2.5-pro"),
        ("mine/claude-x", "mine", "claude-x"),
        ("mine/a/b", "mine", "a/b"),
    ],
)
def test_a_prefix_wins_over_the_name(model: str, provider: str, name: str) -> None:
    assert choose("opencode", STANDARD, model, ["mine"]) == ModelChoice(provider, name)


def test_an_upstream_of_the_servers_own_may_be_called_like_a_provider() -> None:
    assert choose("codex", ("openai",), "anthropic/x", ["anthropic"]) == ModelChoice("anthropic", "x")


def test_the_only_provider_takes_unclaimed_models() -> None:
    assert choose("codex", ("openai",), "llama-4") == ModelChoice("openai", "llama-4")
    assert choose("codex", ("openai",), "meta/llama-4") == ModelChoice("openai", "meta/llama-4")


def test_ambiguous_model_is_refused_with_what_to_type() -> None:
    said = refused("opencode", STANDARD, "llama-4", "mine")
    assert all(f"opencode:{each}/llama-4" in said for each in (*STANDARD, "mine"))
    assert "codex:openai/claude-x" in refused("codex", ("openai",), "claude-x")
    assert "codex:openai/NAME" in refused("codex", ("openai",), "google/gemini-9")
    assert "opencode:openai/NAME" in refused("opencode", STANDARD, "openai/")
    assert "x" * 101 not in refused("opencode", STANDARD, "x" * 5000)


@pytest.mark.parametrize("name", [name for name in catalog.names() if catalog.keys_of(name)])
def test_every_public_agent_needs_a_model(name: str) -> None:
    agent = catalog.make(name, {})
    for model in (None, "", " "):
        with pytest.raises(UsageError, match=f"name one: {name}:"):
            agent.check(model)
    provider = next(iter(agent.keys))
    assert agent.choose(f"{provider}/m") == ModelChoice(provider, "m")
    assert agent.choose("mine/m", ["mine"]) == ModelChoice("mine", "m")


def test_agents_without_a_model_choose_none() -> None:
    for name, kwargs in (("nop", {}), ("oracle", {}), ("command", {"run": "x"})):
        assert catalog.make(name, kwargs).choose("anything") is None


@given(st.text(max_size=50), st.lists(st.text(max_size=10), max_size=3))
def test_any_text_is_a_choice_or_is_refused(model: str, upstreams: list[str]) -> None:
    try:
        found = choose("opencode", STANDARD, model, upstreams)
    except UsageError:
        return
    assert found.provider in (*STANDARD, *upstreams)
    assert found.model
    assert model.endswith(found.model)


def test_a_key_is_there_as_a_secret_or_as_a_variable() -> None:
    keys = {"anthropic": ["A", "B"], "openai": ["C"]}
    assert missing_keys(keys, set(), set()) == keys
    assert missing_keys(keys, {"B"}, {"C"}) == {}
    assert missing_keys({**keys, "openai": []}, set(), set()) == {"anthropic": ["A", "B"]}
    assert missing_keys(keys, {f"{providers.STORED_PREFIX}A"}, set()) == {"openai": ["C"]}
    assert missing_keys(keys, {"C"}, {f"{providers.STORED_PREFIX}A"}) == {"anthropic": ["A", "B"]}


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ("gemini/gemini-9", "google", "gemini-9"),
        ("openai/a/b", "openai", "a/b"),
        ("house/any", "house", "any"),
    ],
)
def test_some_models_imply_their_provider(model: str, provider: str, name: str) -> None:
    assert choice_by_name(model, ["house"]) == ModelChoice(provider, name)


@pytest.mark.parametrize("model", ["llama-9", "meta/llama-9", "house/", "/", ""])
def test_others_do_not(model: str) -> None:
    assert choice_by_name(model, ["house"]) is None
