"""What all models share: the rules of the wire, and what the store needs of a record."""

from typing import Annotated, Any, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StringConstraints
from pydantic_core import PydanticCustomError

_set = object.__setattr__
MAX_INT = 2**53 - 1
"""The largest integer that every JSON client keeps exactly."""


def _number(value: Any) -> Any:
    if isinstance(value, bool | str | bytes):
        raise PydanticCustomError("not_a_number", "must be a number")
    return value


WireInt = Annotated[int, BeforeValidator(_number, json_schema_input_type=int), Field(ge=-MAX_INT, le=MAX_INT)]
"""An integer of a request: `30.0` is one, `true` and `"30"` are not."""

WireFloat = Annotated[float, BeforeValidator(_number, json_schema_input_type=float)]
"""A finite number of a request: `true` and `"30"` are not."""

WireBool = StrictBool
"""True or false of a request: `1` and `"true"` are not."""

ShortText = Annotated[str, StringConstraints(max_length=1024)]
"""A name, a label, a message: what people type."""

Metadata = Annotated[dict[ShortText, Annotated[str, Field(max_length=65536)]], Field(max_length=256)]
"""Labels that users put on things."""


class Model(BaseModel):
    """A part of the wire: frozen; fields of newer or older clients are ignored."""

    # Built when it is first used: a process has many models, and most of them never are.
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, defer_build=True)

    def __copy__(self) -> Self:
        """As pydantic does it, without the extra and private fields that no model here has."""
        copied = self.__class__.__new__(self.__class__)
        _set(copied, "__dict__", self.__dict__.copy())
        _set(copied, "__pydantic_extra__", None)
        _set(copied, "__pydantic_fields_set__", self.__pydantic_fields_set__.copy())
        _set(copied, "__pydantic_private__", None)
        return copied


class Columns(NamedTuple):
    """What the store keeps beside a record's body, to find it by."""

    name: str | None = None
    status: str | None = None
    parent: str | None = None


class Record(Model):
    """Something the store keeps; subclasses say by `columns` what it can be found by."""

    id: str
    create_time_ms: int
    request_hash: str | None = None
    """Of the request that made it, so that a repeated request is known from one that reuses its id."""

    def columns(self) -> Columns:
        """What the store can look for."""
        return Columns()
