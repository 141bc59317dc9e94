"""Which model an agent asks, where that is, and with whose key: known before anything is started."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from benchyard.agents.base import Agent, ModelChoice
from benchyard.agents.providers import ALIASES, STORED_PREFIX, choice_by_name
from benchyard.engine.secrets import Secrets
from benchyard.engine.upstreams import OAUTH_VARIABLE, Upstreams
from benchyard.errors import NotFound, UsageError
from benchyard.gateway.grants import Upstream
from benchyard.models.jobs import AgentConfig, AgentEnvironment


@dataclass(frozen=True)
class Route:
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

    def __init__(self, upstreams: Upstreams, secrets: Secrets) -> None:
        self._upstreams = upstreams
        self.secrets = secrets

    async def route(self, agent: Agent[Any], config: AgentConfig) -> Route | None:
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
        return Route(provider, choice.model, *(found or (variables[0], None)))

    def refuse_open_keys(self, agent: str, environment: AgentEnvironment | None) -> None:
        """Raise UsageError for a key of a model provider among the plain variables of an agent."""
        variables = {name for each in self._upstreams.names for name in self._upstreams.variables(each)}
        _refuse_open_keys(agent, variables | {OAUTH_VARIABLE}, environment or AgentEnvironment())

    async def upstream(self, route: Route, config: AgentConfig) -> Upstream:
        """Where a route leads, with the key; raises NotFound if the key is gone."""
        return await self._upstream(route, config.base_url)

    async def own_route(self, choice: ModelChoice, secret: str | None) -> Route:
        """How code of the user's own reaches a model, with the key of that secret or of the usual one.

        Raises UsageError for a provider that is not known, and for a key that is not there.
        """
        provider = choice.provider
        self._upstreams.make(provider, None, None)
        variables = self._upstreams.variables(provider)
        if secret is not None:
            await self._require(secret)
            return Route(provider, choice.model, variables[0], secret)
        found = await self._key(variables, {})
        if found is None and self._upstreams.needs_key(provider):
            raise UsageError(
                f"there is no key of {provider}: keep it on the server with `benchyard secret set "
                f"{variables[0]}`, or name the secret that has it",
                field="secret",
            )
        return Route(provider, choice.model, *(found or (variables[0], None)))

    async def own_upstream(self, route: Route) -> Upstream:
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

    async def _upstream(self, route: Route, url: str | None) -> Upstream:
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
    agent: Agent[Any], route: Route | None, environment: AgentEnvironment | None
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
