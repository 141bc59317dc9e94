"""Cursor pages as query parameters."""

import re
from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Request
from fastapi import Query as Parameter

from benchyard.models.jobs import JOB_KEY
from benchyard.models.pages import DEFAULT_LIMIT, MAX_LIMIT, Query

OF_A_JOB = f"metadata.{JOB_KEY}"
"""Metadata key that only runs of jobs have."""
_METADATA = re.compile(r"metadata\[(?P<key>[^\]]+)\](?P<any>\[in\])?")


async def page_query(
    limit: Annotated[int, Parameter(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT,
    starting_after: str | None = None,
    *,
    include_total_count: bool = True,
) -> Query:
    """Return the query of a page of any list; routes add their filters with `dataclasses.replace`."""
    return Query(limit=limit, starting_after=starting_after or None, include_total_count=include_total_count)


PageQuery = Annotated[Query, Depends(page_query)]


async def metadata_filters(request: Request) -> dict[str, str | list[str]]:
    """Return filters from `metadata[KEY]=VALUE` and `metadata[KEY][in]=A,B`, ready for `Query.where`."""
    filters: dict[str, str | list[str]] = {}
    for name, value in request.query_params.multi_items():
        match = _METADATA.fullmatch(name)
        if match:
            filters[f"metadata.{match['key']}"] = value.split(",") if match["any"] else value
    return filters


MetadataFilters = Annotated[dict[str, str | list[str]], Depends(metadata_filters)]


async def named_query(
    query: PageQuery, filters: MetadataFilters, name: str | None = None, search: str | None = None
) -> Query:
    """Return the query of a page of things with names and metadata."""
    where = {**filters, **({"name": name} if name else {})}
    return replace(query, where=where, search=search or None)


NamedQuery = Annotated[Query, Depends(named_query)]


def narrow(query: Query, **wanted: str | None) -> Query:
    """Return a query that is also restricted to these fields, if they are given."""
    return replace(query, where={**query.where, **{key: value for key, value in wanted.items() if value}})
