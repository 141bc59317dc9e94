"""The budget for models, and the access of an interactive run to them."""

from typing import Annotated

from pydantic import Field, StringConstraints

from benchyard.models.base import Model, WireBool, WireFloat, WireInt


class Budget(Model):
    """Limits on the use of models; a field without a value is unlimited."""

    requests: Annotated[WireInt, Field(ge=0)] | None = None
    tokens: Annotated[WireInt, Field(ge=0)] | None = None
    """Input and output tokens together."""
    usd: Annotated[WireFloat, Field(ge=0)] | None = None


_Word = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]


class RunGatewayRequest(Model):
    """The body of a call that opens the access: a model, which may imply its provider, or a provider."""

    model: _Word | None = None
    provider: _Word | None = None
    secret: _Word | None = None
    """The name of the secret with the key; None looks for a secret of the provider's usual name."""
    budget: Budget | None = None
    """The budget of the whole run; None leaves the present budget."""
    logprobs: WireBool = False
    """True if logprobs and token ids are requested and stored."""


class RunRoute(Model):
    """The route to one provider."""

    model: str | None = None
    variable: str | None = None
    """The usual variable of the key."""
    secret: str | None = None
    """The secret that holds the key; None if no key is needed."""


class RunGateway(Model):
    """The access of a run to models, as it is stored with the run."""

    routes: dict[str, RunRoute] = Field(default_factory=dict)
    """Provider -> route."""
    budget: Budget = Field(default_factory=Budget)
    logprobs: bool = False
    is_open: bool = True
    kept: int = 0
    """The number of the last traces that were stored when the access was closed."""


class RunGatewayView(Model):
    """The access of a run to models, as code uses it."""

    url: str
    """The base URL of the provider, for code inside the devbox."""
    outside_url: str
    """The same URL for code outside the devbox, through the server."""
    token: str
    """The token that code uses in place of a key."""
    provider: str
    model: str | None = None
    """The model's name at the provider."""
