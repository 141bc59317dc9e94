"""What a devbox may do at the gateway: a token, where it leads, and how much of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchyard.gateway.calls import TokenUsage


@dataclass(frozen=True)
class Upstream:
    """Where one route leads, and with whose key."""

    base_url: str
    header: str = "authorization"
    """Where the key goes; whatever the devbox sent in it, or in any other header for keys, is dropped."""
    prefix: str = "Bearer "
    key: str | None = field(default=None, repr=False)
    """None where the upstream needs none."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Set on every request."""
    prices: str | None = None
    """Whose prices count, by the name of the price list; None means that no price is known."""
    any_path: bool = False
    """Whether it is any HTTP API, not only calls of models."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What else of what it is sent must not come back in its answers."""


@dataclass(frozen=True)
class GrantBudget:
    """How much may be used; None is as much as there is."""

    requests: int | None = None
    tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True)
class Grant:
    """A token and what it opens; `id` makes it idempotent."""

    id: str
    token: str = field(repr=False)
    devbox_id: str
    """The only devbox it may come from."""
    upstreams: Mapping[str, Upstream]
    """First part of the path -> where the rest goes: `/openai/v1/responses` takes the route `openai`."""
    expires_ms: int
    """The token is worth nothing after that, whatever becomes of the server."""
    group: str | None = None
    """Grants of one group share `group_budget`: those of one job."""
    budget: GrantBudget = field(default_factory=GrantBudget)
    group_budget: GrantBudget = field(default_factory=GrantBudget)
    wait_seconds: float = 600.0
    """How long requests may be held in all because the provider says to come back later."""
    logprobs: bool = False
    """Whether the gateway asks for logprobs and token ids, and keeps them to itself (dialect `chat`)."""


@dataclass(frozen=True)
class GrantUsage:
    """What was used by a grant so far."""

    calls: int = 0
    """Calls of models that were passed on."""
    others: int = 0
    """Requests that were passed on and are no calls of a model, such as lists of models."""
    usage: TokenUsage = field(default_factory=TokenUsage)
    cost_usd: float | None = 0.0
    """None as soon as one call has no known price."""
    rate_limited_ms: int = 0
    over_budget: str | None = None
    """Which budget refused a request, in words; None if none did."""
    last_error: str | None = None
    """What the last call failed with, in a line; None if it was answered well."""
    last_status: int | None = None
    """Of the last call; 0 if there was no answer."""

    @property
    def requests(self) -> int:
        """What a budget of requests counts."""
        return self.calls + self.others
