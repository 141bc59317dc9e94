"""Walks the cursor pages of a listing."""

from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from benchyard.client.core import Emit, Flow, Request, send
from benchyard.errors import BenchyardError

M = TypeVar("M", bound=BaseModel)

PAGE_SIZE = 1000


def pages(request: Request, key: str, model: type[M], limit: int | None = None) -> Flow[M]:
    """Every item of a listing, newest first, at most `limit`; asks for a page only when it is needed."""
    cursor: str | None = None
    left = limit
    while left is None or left > 0:
        size = PAGE_SIZE if left is None else min(left, PAGE_SIZE)
        query = {**request.query, "limit": size, "starting_after": cursor, "include_total_count": False}
        body = (yield from send(replace(request, query=query))).data()
        try:
            found = [model.model_validate(item) for item in body[key]]
            cursor = body[key][-1]["id"] if found else None
        except (KeyError, TypeError, ValidationError) as error:
            raise BenchyardError(f"the server's answer is not a page of {key}") from error
        for item in found:
            yield Emit(item)
        if not body.get("has_more") or cursor is None:
            return
        left = None if left is None else left - len(found)
