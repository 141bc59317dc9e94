"""Base classes and types of all models: the rules of the wire, and the columns of stored records."""

from collections.abc import Collection, Iterator
from enum import Enum
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StringConstraints
from pydantic_core import PydanticCustomError

_set = object.__setattr__
MAX_INT = 2**53 - 1
"""The largest integer that every JSON client represents exactly."""


def _number(value: Any) -> Any:
    if isinstance(value, bool | str | bytes):
        raise PydanticCustomError("not_a_number", "must be a number")
    return value


WireInt = Annotated[int, BeforeValidator(_number, json_schema_input_type=int), Field(ge=-MAX_INT, le=MAX_INT)]
"""An integer in a request: `30.0` is valid, `true` and `"30"` are not."""

WireFloat = Annotated[float, BeforeValidator(_number, json_schema_input_type=float)]
"""A finite number in a request: `true` and `"30"` are not valid."""

WireBool = StrictBool
"""A boolean in a request: `1` and `"true"` are not valid."""

ShortText = Annotated[str, StringConstraints(max_length=1024)]
"""A name, a label or a message, typed by people."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""The name of a thing, given by people: one line."""

Metadata = Annotated[dict[ShortText, Annotated[str, Field(max_length=65536)]], Field(max_length=256)]
"""Labels that users put on things."""


LONGEST_REPR = 92
"""Length of a model's `repr`, before the number of the fields that are left out."""
LONGEST_SHOWN = 60
UNSHOWN = frozenset({"reference_output"})


class Brief(str):
    """A text with itself as its `repr`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _brief(value: Any) -> str:
    """Return a value as a part of a line."""
    if isinstance(value, Enum):
        return repr(value.value)
    if isinstance(value, BaseModel):
        id = value.__dict__.get("id")
        return (
            f"{type(value).__name__}(id={id!r}, ...)"
            if isinstance(id, str)
            else f"{type(value).__name__}(...)"
        )
    if isinstance(value, list | tuple | dict | set | frozenset) and len(value) > 0:
        text = f"{len(value)} of {_kind(value)}" if len(value) > 3 else repr(value)
        return text if len(text) <= LONGEST_SHOWN else f"{len(value)} of {_kind(value)}"
    if isinstance(value, str) and len(value) > LONGEST_SHOWN:
        return f"{value[: LONGEST_SHOWN // 2]!r}... {len(value)} characters"
    return repr(value)


def _kind(values: Collection[Any]) -> str:
    return f"<{type(next(iter(values))).__name__}>"


class Model(BaseModel):
    """A part of the wire: frozen; fields of newer or older clients are ignored."""

    # Built at first use: a process defines many models, and uses few of them.
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, defer_build=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield its first fields, as many as fit a line, without secrets or the solution of a scenario."""
        fields = type(self).model_fields
        shown = [
            (name, value)
            for name, value in self.__dict__.items()
            if value not in (None, [], {}) and (name not in fields or fields[name].repr)
        ]
        left = LONGEST_REPR - len(type(self).__name__)
        for number, (name, value) in enumerate(shown):
            told = Brief("..." if name in UNSHOWN else _brief(value))
            left -= len(name) + len(told) + len("=, ")
            if left < 0 and number:
                yield None, Brief(f"... {len(shown) - number} more fields")
                return
            yield name, told

    def __copy__(self) -> Self:
        """Copy as pydantic does, but without extra and private fields, which no model here has."""
        copied = self.__class__.__new__(self.__class__)
        _set(copied, "__dict__", self.__dict__.copy())
        _set(copied, "__pydantic_extra__", None)
        _set(copied, "__pydantic_fields_set__", self.__pydantic_fields_set__.copy())
        _set(copied, "__pydantic_private__", None)
        return copied


class RenameRequest(Model):
    """A new name for a job, a run or an object."""

    name: Name


class Columns(NamedTuple):
    """The values the store indexes beside a record's body."""

    name: str | None = None
    status: str | None = None
    parent: str | None = None


class Record(Model):
    """A record of the store; subclasses return by `columns` the values that it is indexed by."""

    id: str
    create_time_ms: int
    request_hash: str | None = None
    """The hash of the request that created it: a repeated request has the same one, a reused id another."""

    def columns(self) -> Columns:
        """Return the values that the store indexes."""
        return Columns()
