"""Cursor pages: the queries and results of listings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from benchyard.models.base import Model

DEFAULT_LIMIT = 20
MAX_LIMIT = 5000

T = TypeVar("T")

Where = Mapping[str, str | Sequence[str]]
"""Filters, all of which must hold; a sequence means any of its values.

A key is a column (`name`, `status`, `parent`), `metadata.<key>`, `tagged`, or a field of the record.
"""


@dataclass(frozen=True)
class Query:
    """A part of a collection to list, newest first."""

    limit: int = DEFAULT_LIMIT
    starting_after: str | None = None
    """The id of the last record of the previous page."""
    where: Where = field(default_factory=dict)
    search: str | None = None
    """A whole id, or a part of a name."""
    include_total_count: bool = True
    without: Sequence[str] = ()
    """Keys, as those of `where`, that a record must not have."""


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of records."""

    items: list[T]
    has_more: bool
    total_count: int | None = None


class MetadataKeys(Model):
    """The metadata keys in use."""

    keys: list[str]


class MetadataValues(Model):
    """The values in use for one metadata key."""

    key: str
    values: list[str]
