"""What all models share: the rules of the wire, and what the store needs of a record."""

from collections.abc import Collection, Iterator
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

Name = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""What people call a thing: one line."""

Metadata = Annotated[dict[ShortText, Annotated[str, Field(max_length=65536)]], Field(max_length=256)]
"""Labels that users put on things."""


MOST_SHOWN = 12
"""How many fields of a model its `repr` has."""
LONGEST_SHOWN = 60
UNSHOWN = frozenset({"reference_output"})


class Brief(str):
    """A text that is its own `repr`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _brief(value: Any) -> str:
    """A value in one short line."""
    if isinstance(value, BaseModel):
        id = value.__dict__.get("id")
        return (
            f"{type(value).__name__}(id={id!r}, ...)"
            if isinstance(id, str)
            else f"{type(value).__name__}(...)"
        )
    if isinstance(value, list | tuple | dict | set | frozenset) and len(value) > 0:
        told = f"{len(value)} of {_kind(value)}" if len(value) > 3 else repr(value)
        return told if len(told) <= LONGEST_SHOWN else f"{len(value)} of {_kind(value)}"
    if isinstance(value, str) and len(value) > LONGEST_SHOWN:
        return f"{value[: LONGEST_SHOWN // 2]!r}... {len(value)} characters"
    return repr(value)


def _kind(values: Collection[Any]) -> str:
    return f"<{type(next(iter(values))).__name__}>"


class Model(BaseModel):
    """A part of the wire: frozen; fields of newer or older clients are ignored."""

    # Built when it is first used: a process has many models, and most of them never are.
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, defer_build=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Its fields as they fit on a few lines, without secrets and the solution of a scenario."""
        fields = type(self).model_fields
        shown = [
            (name, value)
            for name, value in self.__dict__.items()
            if value not in (None, [], {}) and (name not in fields or fields[name].repr)
        ]
        for name, value in shown[:MOST_SHOWN]:
            yield name, Brief("..." if name in UNSHOWN else _brief(value))
        if len(shown) > MOST_SHOWN:
            yield None, Brief(f"... {len(shown) - MOST_SHOWN} more fields")

    def __copy__(self) -> Self:
        """As pydantic does it, without the extra and private fields that no model here has."""
        copied = self.__class__.__new__(self.__class__)
        _set(copied, "__dict__", self.__dict__.copy())
        _set(copied, "__pydantic_extra__", None)
        _set(copied, "__pydantic_fields_set__", self.__pydantic_fields_set__.copy())
        _set(copied, "__pydantic_private__", None)
        return copied


class RenameRequest(Model):
    """Another name for a job, a run or an object."""

    name: Name


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
