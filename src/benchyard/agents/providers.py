"""Choice of provider, model and key from `[provider/]model` as people type it."""

import re
from collections.abc import Collection, Mapping, Sequence

from benchyard.agents.base import ModelChoice
from benchyard.errors import UsageError

STANDARD = ("anthropic", "openai", "google")
"""Providers with an address that every gateway knows."""
STORED_PREFIX = "BMJ_"
"""Prefix of the names of secrets that were made from a caller's own variables."""

ALIASES = {"gemini": "google"}
"""Other names of providers."""
_NAMES = {
    "anthropic": re.compile(r"claude-.+"),
    "openai": re.compile(r"(?:gpt-.+|o[134](?:-.+)?|codex-.+|chatgpt-.+)"),
    "google": re.compile(r"gemini-.+"),
}
"""Patterns of each provider's model names."""
_MOST_SHOWN = 100


def choose(
    agent: str, offered: Sequence[str], model: str | None, upstreams: Collection[str] = ()
) -> ModelChoice:
    """Return the model and its provider: by a prefix, else by the model's name, else the only provider.

    Raises UsageError that lists the choices as they are typed.
    """
    if not model or not model.strip():
        raise UsageError(f"agent {agent!r} needs a model; name one: {_qualified_names(agent, offered)}")
    prefix, slash, rest = model.partition("/")
    if slash and prefix in upstreams:
        return ModelChoice(prefix, _require_model_name(agent, model, rest))
    provider = ALIASES.get(prefix, prefix)
    if slash and provider in STANDARD:
        if provider not in offered:
            raise UsageError(
                f"agent {agent!r} cannot ask {provider} for a model; it asks: "
                f"{_qualified_names(agent, offered)}"
            )
        return ModelChoice(provider, _require_model_name(agent, model, rest))
    return ModelChoice(_guess(agent, offered, model, upstreams), model)


def choice_by_name(model: str, upstreams: Collection[str] = ()) -> ModelChoice | None:
    """Return the model and its provider if the name alone implies it, by a prefix or a known pattern."""
    prefix, slash, rest = model.partition("/")
    provider = prefix if prefix in upstreams else ALIASES.get(prefix, prefix)
    if slash and rest and provider in (*upstreams, *STANDARD):
        return ModelChoice(provider, rest)
    likely = _likely(model)
    return ModelChoice(likely, model) if likely else None


def missing_keys(
    keys: Mapping[str, Sequence[str]], secrets: Collection[str], environment: Collection[str]
) -> dict[str, list[str]]:
    """Return provider -> the variables any of which would give it a key, for providers that have none yet.

    A key may be a secret of that name, a secret made of the caller's variable, or the variable itself.
    A provider without variables needs none.
    """

    def is_there(name: str) -> bool:
        return name in secrets or STORED_PREFIX + name in secrets or name in environment

    return {
        provider: list(names) for provider, names in keys.items() if names and not any(map(is_there, names))
    }


def _guess(agent: str, offered: Sequence[str], model: str, upstreams: Collection[str]) -> str:
    likely = _likely(model)
    if likely in offered:
        return str(likely)
    if not likely and len(offered) == 1:
        return offered[0]
    why = f"belongs to {likely} by its name" if likely else "could belong to any provider"
    shown = model[:_MOST_SHOWN]
    choices = _qualified_names(agent, [*offered, *sorted(upstreams)], shown)
    raise UsageError(
        f"model {shown!r} {why}, and agent {agent!r} must know which provider to ask; write one of: {choices}"
    )


def _likely(model: str) -> str | None:
    return next((name for name, called in _NAMES.items() if called.fullmatch(model)), None)


def _require_model_name(agent: str, given: str, rest: str) -> str:
    if not rest.strip():
        raise UsageError(f"{given[:_MOST_SHOWN]!r} names no model; write {agent}:{given[:_MOST_SHOWN]}NAME")
    return rest


def _qualified_names(agent: str, providers: Sequence[str], model: str = "NAME") -> str:
    return ", ".join(f"{agent}:{provider}/{model}" for provider in providers)
