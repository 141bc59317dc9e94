"""Webhooks: addresses that get messages of ends of jobs, verdicts of gates and new problems."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from benchyard.models.base import Model, Record, ShortText

WebhookEventType = Literal["job.ended", "gate.verdict", "problem.new", "test"]
EVENT_TYPES: tuple[WebhookEventType, ...] = ("job.ended", "gate.verdict", "problem.new")
MOST_WEBHOOKS = 50


class WebhookRequest(Model):
    """The body of a create call."""

    url: Annotated[str, StringConstraints(max_length=2048)]
    events: Annotated[list[WebhookEventType], Field(max_length=20)] | None = None
    """Events to send; all by default."""
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
