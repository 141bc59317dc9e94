"""Grants of devboxes at the gateway: a token, the routes it opens, and its budgets."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchyard.gateway.calls import TokenUsage


@dataclass(frozen=True)
class Upstream:
    """Target of one route, and the key for it."""

    base_url: str
    header: str = "authorization"
    """Header for the key; the devbox's own value of it, and of any other key header, is dropped."""
    prefix: str = "Bearer "
    key: str | None = field(default=None, repr=False)
    """None if the upstream needs no key."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers set on every request."""
    prices: str | None = None
    """Provider in the price list whose prices apply; None if the prices are unknown."""
    any_path: bool = False
    """True if the upstream is any HTTP API, not only one for calls of models."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Further secrets sent to the upstream, which must not appear in its answers."""


@dataclass(frozen=True)
class GrantBudget:
    """Limits of usage; None is no limit."""

    requests: int | None = None
    tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True)
class Grant:
    """A token and the routes it opens; granting the same `id` again replaces the grant."""

    id: str
    token: str = field(repr=False)
    devbox_id: str
    """The only devbox that may use the token."""
    upstreams: Mapping[str, Upstream]
    """First part of the path -> upstream for the rest: `/openai/v1/responses` takes the route `openai`."""
    expires_ms: int
    """End of the token, in force even if the server is gone by then."""
    group: str | None = None
    """Name of a group of grants that share `group_budget`: those of one job."""
    budget: GrantBudget = field(default_factory=GrantBudget)
    group_budget: GrantBudget = field(default_factory=GrantBudget)
    wait_seconds: float = 600.0
    """Total seconds that requests may be held because the provider's rate limit is reached."""
    logprobs: bool = False
    """True if the gateway asks for logprobs and token ids, and removes them from answers (dialect `chat`)."""


@dataclass(frozen=True)
class GrantUsage:
    """Usage of a grant so far."""

    calls: int = 0
    """Calls of models that were passed on."""
    others: int = 0
    """Requests passed on that are not calls of a model, such as lists of models."""
    usage: TokenUsage = field(default_factory=TokenUsage)
    cost_usd: float | None = 0.0
    """None as soon as one call has no known price."""
    rate_limited_ms: int = 0
    over_budget: str | None = None
    """Message of the budget that refused a request; None if none did."""
    last_error: str | None = None
    """Error of the last call, in one line; None if it succeeded."""
    last_status: int | None = None
    """HTTP status of the last call; 0 if there was no answer."""

    @property
    def requests(self) -> int:
        """Number of requests counted against a request budget."""
        return self.calls + self.others
