"""Routes to models: which model an agent asks, at which address, and with whose key."""

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
"""A token of a subscription goes where other keys do not; the agent says by itself what it is."""


_PLAIN = re.compile(r"[\x21-\x7e]+")
"""Of what an address is made: what else is in it, a reader leaves out, and who sends it may not."""


@dataclass(frozen=True)
class _Provider:
    url: str
    header: str
    prefix: str
    variables: tuple[str, ...] = ()
    """What its key is called before its usual name."""


_PROVIDERS: Mapping[str, _Provider] = {
    "anthropic": _Provider("https://api.anthropic.com", "x-api-key", ""),
    "openai": _Provider("https://api.openai.com", "authorization", "Bearer "),
    "google": _Provider(
        "https://generativelanguage.googleapis.com", "x-goog-api-key", "", ("GEMINI_API_KEY",)
    ),
}


class ModelUpstreams:
    """Every upstream that this server knows."""

    def __init__(self, settings: Settings) -> None:
        self._own = {name: check_url(url) for name, url in settings.upstreams.items()}
        self._keyless = settings.keyless_upstreams
        strays = self._keyless - {*self._own, *_PROVIDERS}
        if strays:
            raise UsageError(f"no upstream is called {', '.join(sorted(strays))}; name it with --upstream")

    @property
    def own(self) -> frozenset[str]:
        """Names that were given to this server, beside those of the providers."""
        return frozenset(self._own) - frozenset(_PROVIDERS)

    def needs_key(self, name: str) -> bool:
        """Whether an upstream wants to be told a key."""
        return name not in self._keyless

    def variables(self, name: str) -> tuple[str, ...]:
        """Where the key of an upstream is looked for, if no agent says so."""
        provider = _PROVIDERS.get(name)
        usual = f"{name.upper().replace('-', '_').replace('.', '_')}_API_KEY"
        return (*(provider.variables if provider else ()), usual)

    @property
    def names(self) -> list[str]:
        """The names of all of them."""
        return sorted({*_PROVIDERS, *self._own})

    @property
    def listed(self) -> str:
        """The names of all of them, for people."""
        return ", ".join(self.names)

    def make(self, name: str, key: str | None, variable: str | None, url: str | None = None) -> Upstream:
        """The upstream of that name with this key, which came as this variable; `url` is a job's own."""
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
    """A base URL without its last slash; raises UsageError for what is none."""
    try:
        parts = urlsplit(url)
        port_is_right = parts.port is None or parts.port > 0
    except ValueError:
        port_is_right = False
    is_plain = port_is_right and _PLAIN.fullmatch(url) is not None
    if not is_plain or parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url[:200]!r} is no address of an upstream; give one as http://HOST:PORT")
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise UsageError("the address of an upstream has no user, query or fragment; its key is a secret")
    return url.rstrip("/")


@dataclass(frozen=True)
class ModelRoute:
    """The way of an agent to its model."""

    provider: str
    model: str
    """As the provider calls it."""
    variable: str | None = None
    """What the key is called where the agent runs by itself."""
    secret: str | None = None
    """The secret that holds the key; None where the upstream needs none."""


class ModelKeys:
    """Finds the routes of agents."""

    def __init__(self, upstreams: ModelUpstreams, secrets: Secrets) -> None:
        self._upstreams = upstreams
        self.secrets = secrets

    async def route(self, agent: Agent[Any], config: AgentConfig) -> ModelRoute | None:
        """How an agent reaches its model; None for one that has nothing to do with the gateway.

        Raises UsageError for a model that is nobody's, and for a key that nobody gave.
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

    async def upstream(self, route: ModelRoute, config: AgentConfig) -> Upstream:
        """Where a route leads, with the key; raises NotFound if the key is gone."""
        return await self._upstream(route, config.base_url)

    async def own_route(self, choice: ModelChoice, secret: str | None) -> ModelRoute:
        """How code of the user's own reaches a model, with the key of that secret or of the usual one.

        Raises UsageError for a provider that is not known, and for a key that is not there.
        """
        provider = choice.provider
        self._upstreams.make(provider, None, None)
        variables = self._upstreams.variables(provider)
        if secret is not None:
            await self._require(secret)
            return ModelRoute(provider, choice.model, variables[0], secret)
        found = await self._key(variables, {})
        if found is None and self._upstreams.needs_key(provider):
            raise UsageError(
                f"there is no key of {provider}: keep it on the server with `benchyard secret set "
                f"{variables[0]}`, or name the secret that has it",
                field="secret",
            )
        return ModelRoute(provider, choice.model, *(found or (variables[0], None)))

    async def own_upstream(self, route: ModelRoute) -> Upstream:
        """Where a route of code of the user's own leads, with the key; raises NotFound if that is gone."""
        return await self._upstream(route, None)

    def usual_names(self) -> list[str]:
        """What secrets are called that may hold a key of a model."""
        variables = {name for each in self._upstreams.names for name in self._upstreams.variables(each)}
        return [
            name for each in sorted({*variables, OAUTH_VARIABLE}) for name in (STORED_PREFIX + each, each)
        ]

    def choice(self, model: str | None, provider: str | None) -> ModelChoice:
        """Who is meant by a model or a provider; raises UsageError that lists the providers."""
        named = choice_by_name(model, self._upstreams.own) if model else None
        if provider:
            if provider not in self._upstreams.own:
                provider = ALIASES.get(provider, provider)
            if named is not None and named.provider == provider:
                return named
            return ModelChoice(provider, model or "")
        if named is None:
            what = f"model {model[:100]!r} can be anybody's" if model else "give a model or a provider"
            raise UsageError(f"{what}; say `provider`: one of {self._upstreams.listed}", field="provider")
        return named

    async def _upstream(self, route: ModelRoute, url: str | None) -> Upstream:
        key = await self.secrets.value(route.secret) if route.secret else None
        return self._upstreams.make(route.provider, key, route.variable, url)

    async def _require(self, secret: str) -> None:
        try:
            await self.secrets.get(secret)
        except NotFound as error:
            raise UsageError(
                f"no secret is called {secret[:100]!r}; keep one with `benchyard secret set {secret[:100]}`",
                field="secret",
            ) from error

    async def _key(self, variables: tuple[str, ...], given: Mapping[str, str]) -> tuple[str, str] | None:
        """The variable and the secret of a key: as the job says, else one of the usual names."""
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
    """The variables whose values no devbox is shown."""
    return frozenset(name for names in agent.keys.values() for name in names)


def other_secrets(
    agent: Agent[Any], route: ModelRoute | None, environment: AgentEnvironment | None
) -> dict[str, str]:
    """The secrets of a job that its devboxes get: all but the keys of models."""
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
