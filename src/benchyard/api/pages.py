"""Cursor pages as query parameters."""

import re
from typing import Annotated

from fastapi import Depends, Request
from fastapi import Query as Parameter

from benchyard.models.pages import DEFAULT_LIMIT, MAX_LIMIT, Query

_METADATA = re.compile(r"metadata\[(?P<key>[^\]]+)\](?P<any>\[in\])?")


async def page_query(
    limit: Annotated[int, Parameter(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT,
    starting_after: str | None = None,
    *,
    include_total_count: bool = True,
) -> Query:
    """What every listing can be asked for; routes add their filters with `dataclasses.replace`."""
    return Query(limit=limit, starting_after=starting_after or None, include_total_count=include_total_count)


PageQuery = Annotated[Query, Depends(page_query)]


async def metadata_filters(request: Request) -> dict[str, str | list[str]]:
    """Filters from `metadata[KEY]=VALUE` and `metadata[KEY][in]=A,B`, ready for `Query.where`."""
    found: dict[str, str | list[str]] = {}
    for name, value in request.query_params.multi_items():
        match = _METADATA.fullmatch(name)
        if match:
            found[f"metadata.{match['key']}"] = value.split(",") if match["any"] else value
    return found


MetadataFilters = Annotated[dict[str, str | list[str]], Depends(metadata_filters)]
