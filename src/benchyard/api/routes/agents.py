"""Agents: register, look up, list, delete."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends

from benchyard.api.deps import Services, ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.pages import PageQuery
from benchyard.api.responses import wait_for_answer
from benchyard.engine.agents.service import AGENT_PREFIX, OWN, PUBLIC
from benchyard.models.agents import (
    AgentDevboxCountsView,
    AgentInstallRequest,
    AgentInstallView,
    AgentListView,
    AgentRequest,
    AgentView,
)
from benchyard.models.pages import Query, Where

router = APIRouter(prefix="/v1/agents", tags=["agents"], route_class=LazyRoute)


async def agent_query(query: PageQuery, name: str | None = None, search: str | None = None) -> Query:
    """Return the query of a page of agents; a part of a name suffices unless `search` is given, too."""
    if name and search:
        return replace(query, where={"name": name}, search=search)
    return replace(query, search=search or name or None)


AgentQuery = Annotated[Query, Depends(agent_query)]


@router.post("", response_model_exclude_none=True)
async def create(services: ServicesDep, identity: RequestIdentity, body: AgentRequest) -> AgentView:
    """Register an agent; it is installed when it is first used."""
    return (await services.engine.agents.known.create(identity.caller(AGENT_PREFIX), body)).view()


@router.get("", response_model_exclude_none=True)
async def list_agents(
    services: ServicesDep, query: AgentQuery, version: str | None = None, *, is_public: bool = False
) -> AgentListView:
    """List agents, newest first; `latest` is the version of the newest."""
    return await _page(services, query, PUBLIC if is_public else OWN, version)


@router.get("/list_public", response_model_exclude_none=True)
async def list_public(services: ServicesDep, query: AgentQuery, version: str | None = None) -> AgentListView:
    """List the agents that come with the server."""
    return await _page(services, query, PUBLIC, version)


@router.get("/devbox_counts")
async def devbox_counts(services: ServicesDep) -> AgentDevboxCountsView:
    """Count the live devboxes that show an agent, by its name."""
    return services.engine.agents.counts()


@router.post("/install", response_model_exclude_none=True)
async def install(services: ServicesDep, body: AgentInstallRequest) -> AgentInstallView:
    """Install an agent ahead of its first use (an extension); goes on without its client."""
    return await wait_for_answer(services, services.engine.agents.install(body.name, body.version))


@router.get("/{id}", response_model_exclude_none=True)
async def retrieve(id: str, services: ServicesDep) -> AgentView:
    """Look an agent up."""
    return (await services.engine.agents.views([await services.engine.agents.known.get(id)]))[0]


@router.post("/{id}/delete")
async def delete(id: str, services: ServicesDep) -> dict[str, Any]:
    """Forget an agent; devboxes that show it go on."""
    await services.engine.agents.known.delete(id)
    return {}


async def _page(services: Services, query: Query, whose: Where, version: str | None) -> AgentListView:
    narrowed = replace(query, where={**query.where, **whose})
    page = await services.engine.agents.known.page(narrowed, version)
    agents = await services.engine.agents.views(page.items)
    return AgentListView(agents=agents, has_more=page.has_more, total_count=page.total_count)
