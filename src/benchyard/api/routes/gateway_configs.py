"""Gateway configs: create, look up, list, update, delete; and tokens for them."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends

from benchyard.api.deps import Services, ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.pages import PageQuery
from benchyard.engine.ids import account_id
from benchyard.engine.network.gateway_configs import DOOR_PREFIX, GATEWAY_PREFIX
from benchyard.models.gateway_configs import (
    GatewayConfig,
    GatewayConfigChange,
    GatewayConfigListView,
    GatewayConfigRequest,
    GatewayConfigView,
    GatewayRequest,
    GatewayTokenView,
)
from benchyard.models.pages import Query

router = APIRouter(tags=["gateway configs"], route_class=LazyRoute)

PATH = "/v1/gateway-configs"


async def gateway_query(
    query: PageQuery, id: str | None = None, name: str | None = None, search: str | None = None
) -> Query:
    """Return the query of a page of configs; a part of a name suffices."""
    return replace(query, where={"id": id} if id else {}, search=search or name or None)


GatewayQuery = Annotated[Query, Depends(gateway_query)]


@router.post(PATH, response_model_exclude_none=True)
async def create(
    services: ServicesDep, identity: RequestIdentity, body: GatewayConfigRequest
) -> GatewayConfigView:
    """Make a gateway config: an HTTP API, and how its key is sent."""
    asked = identity.caller(GATEWAY_PREFIX)
    return _view(services, await services.engine.gateway_configs.create(asked, body))


@router.get(PATH, response_model_exclude_none=True)
async def list_configs(services: ServicesDep, query: GatewayQuery) -> GatewayConfigListView:
    """List gateway configs, newest first, with those that come with the server."""
    page = await services.engine.gateway_configs.page(query)
    configs = [_view(services, config) for config in page.items]
    return GatewayConfigListView(
        gateway_configs=configs, has_more=page.has_more, total_count=page.total_count
    )


@router.get(PATH + "/{id}", response_model_exclude_none=True)
async def retrieve(id: str, services: ServicesDep) -> GatewayConfigView:
    """Look a gateway config up."""
    return _view(services, await services.engine.gateway_configs.get(id))


@router.post(PATH + "/{id}", response_model_exclude_none=True)
async def update(id: str, services: ServicesDep, body: GatewayConfigChange) -> GatewayConfigView:
    """Change a gateway config; devboxes that were given it keep its earlier content."""
    return _view(services, await services.engine.gateway_configs.update(id, body))


@router.post(PATH + "/{id}/delete", response_model_exclude_none=True)
async def delete(id: str, services: ServicesDep) -> GatewayConfigView:
    """Forget a gateway config; devboxes that were given it keep it."""
    return _view(services, await services.engine.gateway_configs.delete(id))


@router.post("/v1/devboxes/{id}/create_gateway_token", response_model_exclude_none=True)
async def create_gateway_token(
    id: str, services: ServicesDep, identity: RequestIdentity, body: GatewayRequest
) -> GatewayTokenView:
    """Open a way from a running devbox to an HTTP API; the token is of use in that devbox only."""
    return await services.engine.devboxes.open_gateway(id, identity.caller(DOOR_PREFIX), body)


def _view(services: Services, config: GatewayConfig) -> GatewayConfigView:
    return config.view(account_id(services.vault))
