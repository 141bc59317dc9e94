"""Routes to models: which model an agent calls, at which address, and with which key."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from benchyard.agents.base import Agent, ModelChoice
from benchyard.agents.providers import ALIASES, STORED_PREFIX, choice_by_name
from benchyard.engine.secrets import Secrets
from benchyard.errors import NotFound, UsageError
from benchyard.gateway.grants import Upstream
from benchyard.models.jobs import AgentConfig, AgentEnvironment
from benchyard.settings import Settings

OAUTH_VARIABLE = "CLAUDE_CODE_OAUTH_TOKEN"
"""Variable with a subscription token: sent in the default header, not the provider's header for keys."""


_PLAIN = re.compile(r"[\x21-\x7e]+")
"""Characters that an address may have: others are dropped by parsers and refused by clients."""


@dataclass(frozen=True)
class _Provider:
    url: str
    header: str
    prefix: str
    variables: tuple[str, ...] = ()
    """Names under which its key is looked for before the usual one."""


_PROVIDERS: Mapping[str, _Provider] = {
    "anthropic": _Provider("https://api.anthropic.com", "x-api-key", ""),
    "openai": _Provider("https://api.openai.com", "authorization", "Bearer "),
    "google": _Provider(
        "https://generativelanguage.googleapis.com", "x-goog-api-key", "", ("GEMINI_API_KEY",)
    ),
}


class ModelUpstreams:
    """All upstreams that this server knows."""

    def __init__(self, settings: Settings) -> None:
        self._own = {name: check_url(each.url) for name, each in settings.upstreams.items()}
        self._keyless = settings.keyless_upstreams

    @property
    def own(self) -> frozenset[str]:
        """Return the names of upstreams from the server's settings, without those of the providers."""
        return frozenset(self._own) - frozenset(_PROVIDERS)

    def needs_key(self, name: str) -> bool:
        """Tell whether an upstream requires a key."""
        return name not in self._keyless

    def variables(self, name: str) -> tuple[str, ...]:
        """Return the variables that may hold an upstream's key if the agent names none."""
        provider = _PROVIDERS.get(name)
        usual = f"{name.upper().replace('-', '_').replace('.', '_')}_API_KEY"
        return (*(provider.variables if provider else ()), usual)

    @property
    def names(self) -> list[str]:
        """Return the names of all upstreams."""
        return sorted({*_PROVIDERS, *self._own})

    @property
    def listed(self) -> str:
        """Return the names of all upstreams, for people."""
        return ", ".join(self.names)

    def make(self, name: str, key: str | None, variable: str | None, url: str | None = None) -> Upstream:
        """Return the upstream of this name with a key that came in this variable; `url` is a job's own."""
        provider = _PROVIDERS.get(name)
        base = check_url(url) if url else self._own.get(name) or (provider.url if provider else None)
        if base is None:
            raise UsageError(f"no upstream is called {name[:100]!r}; there are: {self.listed}")
        if provider is None:
            return Upstream(base, key=key)
        if variable == OAUTH_VARIABLE:
            return Upstream(base, key=key, prices=name)
        return Upstream(base, provider.header, provider.prefix, key, prices=name)


def check_url(url: str) -> str:
    """Return a base URL without its last slash; raises UsageError for an invalid one."""
    try:
        parts = urlsplit(url)
        port_is_right = parts.port is None or parts.port > 0
    except ValueError:
        port_is_right = False
    is_plain = port_is_right and _PLAIN.fullmatch(url) is not None
    if not is_plain or parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url[:200]!r} is not the address of an upstream; give one as http://HOST:PORT")
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise UsageError("the address of an upstream has no user, query or fragment; its key is a secret")
    return url.rstrip("/")


@dataclass(frozen=True)
class ModelRoute:
    """Route of an agent to its model."""

    provider: str
    model: str
    """Name of the model at its provider."""
    variable: str | None = None
    """Variable of the key outside of Benchyard."""
    secret: str | None = None
    """Secret that holds the key; None if the upstream needs none."""


class ModelKeys:
    """Finds the routes and keys of agents."""

    def __init__(self, upstreams: ModelUpstreams, secrets: Secrets) -> None:
        self._upstreams = upstreams
        self.secrets = secrets

    async def route(self, agent: Agent[Any], config: AgentConfig) -> ModelRoute | None:
        """Return the route of an agent to its model; None if the agent does not use the gateway.

        Raises UsageError for a model of unknown provider, and for a missing key.
        """
        choice = agent.choose(config.model_name, self._upstreams.own)
        if choice is None:
            return None
        provider = choice.provider
        variables = agent.keys.get(provider) or self._upstreams.variables(provider)
        environment = config.agent_environment or AgentEnvironment()
        _refuse_open_keys(agent.name, {*key_variables(agent), *variables}, environment)
        found = await self._key(variables, environment.secrets or {})
        if found is None and self._upstreams.needs_key(provider):
            names = " or ".join(variables)
            raise UsageError(
                f"{agent.name} needs a key of {provider}: set {names} where you type `benchyard job run`, "
                f"or keep it on the server with `benchyard secret set {variables[0]}`",
                field="agent_environment.secrets",
            )
        self._upstreams.make(provider, None, None, config.base_url)
        return ModelRoute(provider, choice.model, *(found or (variables[0], None)))

    def refuse_open_keys(self, agent: str, environment: AgentEnvironment | None) -> None:
        """Raise UsageError for a key of a model provider among the plain variables of an agent."""
        variables = {name for each in self._upstreams.names for name in self._upstreams.variables(each)}
        _refuse_open_keys(agent, variables | {OAUTH_VARIABLE}, environment or AgentEnvironment())

    async def upstream(self, route: ModelRoute, url: str | None = None) -> Upstream:
        """Return the upstream of a route, with its key; raises NotFound if the key is gone."""
        key = await self.secrets.value(route.secret) if route.secret else None
        return self._upstreams.make(route.provider, key, route.variable, url)

    async def own_route(self, choice: ModelChoice, secret: str | None) -> ModelRoute:
        """Return the route of a user's own code to a model, with the key in that secret or the usual one.

        Raises UsageError for an unknown provider, and for a missing key.
        """
        provider = choice.provider
        self._upstreams.make(provider, None, None)
        variables = self._upstreams.variables(provider)
        if secret is not None:
            try:
                await self.secrets.get(secret)
            except NotFound as error:
                name = secret[:100]
                raise UsageError(
                    f"no secret is called {name!r}; keep one with `benchyard secret set {name}`",
                    field="secret",
                ) from error
            return ModelRoute(provider, choice.model, variables[0], secret)
        found = await self._key(variables, {})
        if found is None and self._upstreams.needs_key(provider):
            raise UsageError(
                f"there is no key of {provider}: keep it on the server with `benchyard secret set "
                f"{variables[0]}`, or name the secret that has it",
                field="secret",
            )
        return ModelRoute(provider, choice.model, *(found or (variables[0], None)))

    def usual_names(self) -> list[str]:
        """Return the names of secrets that may hold a key of a model."""
        variables = {name for each in self._upstreams.names for name in self._upstreams.variables(each)}
        return [
            name for each in sorted({*variables, OAUTH_VARIABLE}) for name in (STORED_PREFIX + each, each)
        ]

    def choice(self, model: str | None, provider: str | None) -> ModelChoice:
        """Return the provider and model that are meant; raises UsageError that lists the providers."""
        named = choice_by_name(model, self._upstreams.own) if model else None
        if provider:
            if provider not in self._upstreams.own:
                provider = ALIASES.get(provider, provider)
            if named is not None and named.provider == provider:
                return named
            return ModelChoice(provider, model or "")
        if named is None:
            what = (
                f"model {model[:100]!r} could belong to any provider"
                if model
                else "give a model or a provider"
            )
            raise UsageError(f"{what}; say `provider`: one of {self._upstreams.listed}", field="provider")
        return named

    async def _key(self, variables: tuple[str, ...], given: Mapping[str, str]) -> tuple[str, str] | None:
        """Return the variable and the secret of a key: the job's own, else one of the usual names."""
        for variable in variables:
            if variable in given:
                return variable, given[variable]
        for variable in variables:
            for name in (STORED_PREFIX + variable, variable):
                try:
                    await self.secrets.get(name)
                except NotFound:
                    continue
                return variable, name
        return None


def key_variables(agent: Agent[Any]) -> frozenset[str]:
    """Return the variables with values that no devbox gets."""
    return frozenset(name for names in agent.keys.values() for name in names)


def other_secrets(
    agent: Agent[Any], route: ModelRoute | None, environment: AgentEnvironment | None
) -> dict[str, str]:
    """Return the secrets of a job that its devboxes get: all but the keys of models."""
    secrets = (environment.secrets if environment else None) or {}
    hidden = key_variables(agent) | ({route.variable} if route else set())
    return {variable: name for variable, name in secrets.items() if variable not in hidden}


def _refuse_open_keys(agent: str, variables: Collection[str], environment: AgentEnvironment) -> None:
    given = set(variables) & set(environment.environment_variables or {})
    if given:
        name = min(given)
        raise UsageError(
            f"{name} is a key: as a plain variable of {agent}, everybody who sees the job could read it. "
            f"Keep it with `benchyard secret set {name}` and give it with `--secrets {name}={name}`",
            field="agent_environment.environment_variables",
        )
