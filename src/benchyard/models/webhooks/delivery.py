"""Events on their way to webhooks."""

from typing import Any, Literal

from benchyard.models.base import Columns, Model, Record
from benchyard.models.webhooks.webhook import WebhookEventType

DeliveryState = Literal["pending", "delivered", "failed"]


class WebhookEvent(Model):
    """An event as it is sent."""

    type: WebhookEventType
    time_ms: int
    data: dict[str, Any]


class WebhookDelivery(Record):
    """An event on its way to one webhook, as it is stored."""

    webhook_id: str
    type: str
    body: str
    state: DeliveryState = "pending"
    attempts: int = 0
    next_time_ms: int = 0
    """Time of the next attempt."""
    end_time_ms: int | None = None
    status: int | None = None
    """Status of the last answer; None where there was none."""
    failure: str | None = None
    """Reason why the last attempt failed."""

    def columns(self) -> Columns:
        """Index by state and webhook."""
        return Columns(status=self.state, parent=self.webhook_id)

    def view(self) -> "WebhookDeliveryView":
        """Return the delivery as the wire shows it."""
        return WebhookDeliveryView.model_validate(self, from_attributes=True)


class WebhookDeliveryView(Model):
    """An event on its way to a webhook, as the wire shows it."""

    id: str
    webhook_id: str
    type: str
    body: str
    """The exact text that is signed and sent."""
    state: DeliveryState
    attempts: int
    next_time_ms: int
    create_time_ms: int
    end_time_ms: int | None = None
    status: int | None = None
    failure: str | None = None


class WebhookDeliveryListView(Model):
    """A page of deliveries."""

    deliveries: list[WebhookDeliveryView]
    has_more: bool = False
    total_count: int | None = None
