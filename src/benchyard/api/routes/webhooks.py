"""Webhooks (extensions): addresses that are told of ends of jobs, verdicts of gates and new problems."""

from typing import Annotated

from fastapi import APIRouter
from fastapi import Query as Parameter

from benchyard.api.deps import ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.pages import PageQuery, narrow
from benchyard.engine.webhooks.service import WEBHOOK_PREFIX
from benchyard.models.webhooks.delivery import DeliveryState, WebhookDeliveryListView, WebhookDeliveryView
from benchyard.models.webhooks.webhook import WebhookListView, WebhookRequest, WebhookView

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=LazyRoute)


@router.post("", response_model_exclude_none=True)
async def create(body: WebhookRequest, services: ServicesDep, identity: RequestIdentity) -> WebhookView:
    """Make a webhook; only this answer has the key of its signatures."""
    webhooks = services.engine.webhooks
    made = await webhooks.create(identity.caller(WEBHOOK_PREFIX), body)
    return made.view(webhooks.secret(made))


@router.get("", response_model_exclude_none=True)
async def list_webhooks(query: PageQuery, services: ServicesDep) -> WebhookListView:
    """List webhooks, newest first, without their keys."""
    page = await services.engine.webhooks.records.page(query)
    return WebhookListView(
        webhooks=[each.view() for each in page.items], has_more=page.has_more, total_count=page.total_count
    )


@router.get("/{id}", response_model_exclude_none=True)
async def retrieve(id: str, services: ServicesDep) -> WebhookView:
    """Look a webhook up, without its key."""
    return (await services.engine.webhooks.get(id)).view()


@router.post("/{id}/delete", response_model_exclude_none=True)
async def delete(id: str, services: ServicesDep) -> WebhookView:
    """Delete a webhook with what it was not told yet."""
    return (await services.engine.webhooks.delete(id)).view()


@router.post("/{id}/test", response_model_exclude_none=True)
async def test(id: str, services: ServicesDep) -> WebhookDeliveryView:
    """Send a test event to a webhook, once, and return what came of it."""
    return (await services.engine.webhooks.test(id)).view()


@router.get("/{id}/deliveries", response_model_exclude_none=True)
async def list_deliveries(
    id: str,
    query: PageQuery,
    services: ServicesDep,
    state: Annotated[DeliveryState | None, Parameter(description="only those in this state")] = None,
) -> WebhookDeliveryListView:
    """List what a webhook was or will be told, newest first; what has ended is kept for a week."""
    await services.engine.webhooks.get(id)
    page = await services.engine.webhooks.page(narrow(query, parent=id, status=state))
    return WebhookDeliveryListView(
        deliveries=[each.view() for each in page.items], has_more=page.has_more, total_count=page.total_count
    )
