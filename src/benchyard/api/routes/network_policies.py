"""Network policies: create, list, look up, update, delete."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends

from benchyard.api.deps import ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.pages import PageQuery, narrow
from benchyard.engine.network.policies import POLICY_PREFIX
from benchyard.models.network_policies import (
    NetworkPolicyChange,
    NetworkPolicyListView,
    NetworkPolicyRequest,
    NetworkPolicyView,
)
from benchyard.models.pages import Query

router = APIRouter(prefix="/v1/network-policies", tags=["network policies"], route_class=LazyRoute)


async def _wanted(
    query: PageQuery, id: str | None = None, name: str | None = None, search: str | None = None
) -> Query:
    # On the wire, a part of a name suffices.
    return narrow(replace(query, search=search or name or None), id=id)


@router.post("")
async def create(
    body: NetworkPolicyRequest, services: ServicesDep, identity: RequestIdentity
) -> NetworkPolicyView:
    """Keep a new policy under a name that no other policy has."""
    policies = services.engine.network_policies
    return (await policies.create(identity.new_id(POLICY_PREFIX), body, identity.body_hash)).view()


@router.get("")
async def list_policies(
    query: Annotated[Query, Depends(_wanted)], services: ServicesDep
) -> NetworkPolicyListView:
    """List policies, newest first."""
    page = await services.engine.network_policies.page(query)
    return NetworkPolicyListView(
        network_policies=[policy.view() for policy in page.items],
        has_more=page.has_more,
        total_count=page.total_count,
    )


@router.get("/{id}")
async def retrieve(id: str, services: ServicesDep) -> NetworkPolicyView:
    """Look a policy up."""
    return (await services.engine.network_policies.get(id)).view()


@router.post("/{id}")
async def update(id: str, body: NetworkPolicyChange, services: ServicesDep) -> NetworkPolicyView:
    """Change the given fields only; existing devboxes stay as they are."""
    return (await services.engine.network_policies.update(id, body)).view()


@router.post("/{id}/delete")
async def delete(id: str, services: ServicesDep) -> NetworkPolicyView:
    """Forget a policy; existing devboxes stay as they are."""
    return (await services.engine.network_policies.delete(id)).view()
