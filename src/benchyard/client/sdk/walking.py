"""Listings as a whole, for objects that are told in one list."""

from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel

from benchyard.client.core import Steps
from benchyard.client.listing import Listed, sheet
from benchyard.client.pages import PAGE_SIZE

M = TypeVar("M", bound=BaseModel)


def everything(listed: Listed[M]) -> Steps[list[M]]:
    """The items of all pages; where the query has a `limit`, at most so many."""
    limit: int | None = listed.query.get("limit")
    found: list[M] = []
    after = listed.query.get("starting_after")
    while True:
        size = PAGE_SIZE if limit is None else min(limit - len(found), PAGE_SIZE)
        query = {**listed.query, "limit": size, "starting_after": after}
        held = yield from sheet(replace(listed, query=query))
        found += held.items
        after = held.last_id
        if not held.has_more or len(found) == limit:
            return found
