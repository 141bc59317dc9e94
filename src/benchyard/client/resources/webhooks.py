"""Webhooks: addresses that get messages of ends of jobs, verdicts of gates and new problems."""

from collections.abc import Sequence
from typing import TypedDict, Unpack

from benchyard.client.listings import ListingSpec, listing
from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import Request, Steps, at, fetch
from benchyard.models.webhooks.delivery import DeliveryState, WebhookDeliveryView
from benchyard.models.webhooks.webhook import WebhookEventType, WebhookRequest, WebhookView

_PATH = "/v1/webhooks"


class WebhookPageFields(TypedDict, total=False):
    """Size of a page of webhooks."""

    limit: int
    starting_after: str
    include_total_count: bool


class DeliveryPageFields(WebhookPageFields, total=False):
    """Choice of a page of deliveries."""

    state: DeliveryState


class Webhooks(VerbGroup[S]):
    """The webhooks of a server."""

    @call
    def create(
        self, url: str, events: Sequence[WebhookEventType] | None = None, description: str | None = None
    ) -> Steps[WebhookView]:
        """Make a webhook for all events, or some; only this answer has the key of its signatures."""
        wanted = None if events is None else [*events]
        body = WebhookRequest(url=url, events=wanted, description=description)
        return (yield from fetch(Request("POST", _PATH, json=body), WebhookView))

    @call
    def get(self, id: str) -> Steps[WebhookView]:
        """Look a webhook up, without its key; raises NotFound."""
        return (yield from fetch(Request("GET", at(_PATH + "/{}", id)), WebhookView))

    @call
    def delete(self, id: str) -> Steps[WebhookView]:
        """Delete a webhook with the deliveries that still wait; raises NotFound."""
        return (yield from fetch(Request("POST", at(_PATH + "/{}/delete", id)), WebhookView))

    @call
    def test(self, id: str) -> Steps[WebhookDeliveryView]:
        """Send a test event to a webhook, once, and return the delivery."""
        return (yield from fetch(Request("POST", at(_PATH + "/{}/test", id)), WebhookDeliveryView))

    @listing
    def list(self, **query: Unpack[WebhookPageFields]) -> ListingSpec[WebhookView]:
        """List webhooks, newest first, without their keys."""
        return ListingSpec(_PATH, "webhooks", WebhookView, query)

    @listing
    def deliveries(self, id: str, **query: Unpack[DeliveryPageFields]) -> ListingSpec[WebhookDeliveryView]:
        """List the deliveries of a webhook, newest first; ended ones are kept for a week."""
        return ListingSpec(at(_PATH + "/{}/deliveries", id), "deliveries", WebhookDeliveryView, query)
