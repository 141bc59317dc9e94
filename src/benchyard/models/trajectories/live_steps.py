"""Steps of agents at work, as the wire shows them."""

from typing import Any, Literal

from benchyard.models.base import Model


class LiveStep(Model):
    """A part of an agent's step, sent while the agent works."""

    kind: Literal["step", "observation", "failure", "end"]
    """A new step, the result of an earlier step's tool call, a failed call of a model, or the agent's end."""
    cursor: str = ""
    """Place in the stream, to go on from."""
    number: int | None = None
    """Number of a new step within the stream."""
    is_cut: bool = False
    step: Any = None
    """The step in ATIF."""
    call_id: str | None = None
    """Id of the tool call that an observation belongs to."""
    content: Any = None
    is_error: bool = False
    message: str | None = None
