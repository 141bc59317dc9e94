"""Baselines (extensions): results under a name that later jobs are compared with."""

from typing import Annotated

from fastapi import APIRouter
from fastapi import Query as Parameter

from benchyard.api.deps import ServicesDep
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.pages import PageQuery, narrow
from benchyard.models.reports.baselines import BaselineListView, BaselineRequest, BaselineView

router = APIRouter(prefix="/v1/baselines", tags=["baselines"], route_class=LazyRoute)


@router.post("", response_model_exclude_none=True)
async def set_baseline(body: BaselineRequest, services: ServicesDep) -> BaselineListView:
    """Keep the agents of an ended job under a name, in place of what had it for benchmark and agent.

    Instead of a job, a benchmark run of the SDK that has ended can be kept.
    """
    found = await services.engine.baselines.set(body)
    return BaselineListView(baselines=[each.view() for each in found])


@router.get("", response_model_exclude_none=True)
async def list_baselines(
    query: PageQuery,
    services: ServicesDep,
    name: str | None = None,
    benchmark_id: str | None = None,
    *,
    deleted: Annotated[bool, Parameter(description="also list deleted ones")] = False,
) -> BaselineListView:
    """List baselines, newest first."""
    status = None if deleted else "set"
    page = await services.engine.baselines.page(
        narrow(query, name=name, benchmark_id=benchmark_id, status=status)
    )
    return BaselineListView(
        baselines=[each.view() for each in page.items], has_more=page.has_more, total_count=page.total_count
    )


@router.get("/{id}", response_model_exclude_none=True)
async def retrieve(id: str, services: ServicesDep) -> BaselineView:
    """Look a baseline up, also a deleted one."""
    return (await services.engine.baselines.get(id)).view()


@router.post("/{id}/delete", response_model_exclude_none=True)
async def delete(id: str, services: ServicesDep) -> BaselineView:
    """Delete a baseline; the job that it named stays."""
    return (await services.engine.baselines.delete(id)).view()
