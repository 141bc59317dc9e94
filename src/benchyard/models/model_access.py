"""How much of models may be used, and the way of an interactive run to them."""

from typing import Annotated

from pydantic import Field, StringConstraints

from benchyard.models.base import Model, WireBool, WireFloat, WireInt


class Budget(Model):
    """How much of models may be used; what is not said is not limited."""

    requests: Annotated[WireInt, Field(ge=0)] | None = None
    tokens: Annotated[WireInt, Field(ge=0)] | None = None
    """What goes in and what comes out, added up."""
    usd: Annotated[WireFloat, Field(ge=0)] | None = None


_Word = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]


class RunGatewayRequest(Model):
    """The body of a call that opens it: a model, whose name may tell the provider, or the provider itself."""

    model: _Word | None = None
    provider: _Word | None = None
    secret: _Word | None = None
    """The name of the secret with the key; None looks for one of the provider's usual name."""
    budget: Budget | None = None
    """Of the whole run; None leaves it as it is."""
    logprobs: WireBool = False
    """Whether logprobs and token ids are asked for and kept."""


class RunRoute(Model):
    """Where one provider's part of it leads."""

    model: str | None = None
    variable: str | None = None
    """What the key is usually called."""
    secret: str | None = None
    """The secret that holds the key; None where none is needed."""


class RunGateway(Model):
    """What a run may ask, as it is kept with it."""

    routes: dict[str, RunRoute] = Field(default_factory=dict)
    """By provider."""
    budget: Budget = Field(default_factory=Budget)
    logprobs: bool = False
    is_open: bool = True
    kept: int = 0
    """The number of the last traces that were kept when it was closed."""


class RunGatewayView(Model):
    """What code needs to use it."""

    url: str
    """The base URL of the provider, for code inside the devbox."""
    outside_url: str
    """The same for code anywhere else, through the server."""
    token: str
    """What stands in the place of a key."""
    provider: str
    model: str | None = None
    """As the provider calls it."""
