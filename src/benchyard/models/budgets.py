"""How much of models may be used."""

from typing import Annotated

from pydantic import Field

from benchyard.models.base import Model, WireFloat, WireInt


class Budget(Model):
    """How much of models may be used; what is not said is not limited."""

    requests: Annotated[WireInt, Field(ge=0)] | None = None
    tokens: Annotated[WireInt, Field(ge=0)] | None = None
    """What goes in and what comes out, added up."""
    usd: Annotated[WireFloat, Field(ge=0)] | None = None
