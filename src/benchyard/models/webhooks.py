"""Webhooks: addresses that are told of ends of jobs, verdicts of gates and new problems."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from benchyard.models.base import Columns, Model, Record, ShortText

WebhookEventType = Literal["job.ended", "gate.verdict", "problem.new", "test"]
EVENT_TYPES: tuple[WebhookEventType, ...] = ("job.ended", "gate.verdict", "problem.new")
DeliveryState = Literal["pending", "delivered", "failed"]
MOST_WEBHOOKS = 50


class WebhookRequest(Model):
    """The body of a create call."""

    url: Annotated[str, StringConstraints(max_length=2048)]
    events: Annotated[list[WebhookEventType], Field(max_length=20)] | None = None
    """Events it is told of; all by default."""
    description: ShortText | None = None


class Webhook(Record):
    """A webhook as it is stored; its secret is derived from the server's key."""

    url: str
    events: list[str]
    description: str | None = None

    def view(self, secret: str | None = None) -> "WebhookView":
        """Return the webhook as the wire shows it; only the answer to its creation has the secret."""
        return WebhookView(**self.model_dump(exclude={"request_hash"}), secret=secret)


class WebhookView(Model):
    """A webhook as the wire shows it."""

    id: str
    url: str
    events: list[str]
    description: str | None = None
    create_time_ms: int
    secret: str | None = Field(default=None, repr=False)
    """Key of its signatures; shown once, by the answer that creates it."""


class WebhookListView(Model):
    """A page of webhooks."""

    webhooks: list[WebhookView]
    has_more: bool = False
    total_count: int | None = None


class WebhookEvent(Model):
    """What a webhook is told, as it is sent."""

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
    """Why the last attempt failed."""

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
    """Exactly what is signed and sent."""
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
