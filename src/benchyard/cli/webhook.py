"""`benchyard webhook`: addresses that get messages of ends of jobs, verdicts of gates and new problems."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

import click

from benchyard.cli.connection import connect
from benchyard.cli.notices import say
from benchyard.cli.options import IntRange, checked_input
from benchyard.cli.render import age, output_option, show, show_many
from benchyard.cli.table import Narrow
from benchyard.client.plain_text import clean
from benchyard.models.webhooks.delivery import WebhookDeliveryView
from benchyard.models.webhooks.webhook import EVENT_TYPES, WebhookEventType, WebhookView

COLUMNS: Mapping[str, Callable[[WebhookView], object]] = {
    "ID": lambda view: view.id,
    "URL": lambda view: clean(view.url),
    "EVENTS": lambda view: " ".join(view.events),
    "DESCRIPTION": lambda view: clean(view.description or ""),
    "AGE": lambda view: age(view.create_time_ms),
}
DELIVERY_COLUMNS: Mapping[str, Callable[[WebhookDeliveryView], object]] = {
    "ID": lambda view: view.id,
    "EVENT": lambda view: view.type,
    "STATE": lambda view: view.state,
    "TRIES": lambda view: view.attempts,
    "AGE": lambda view: age(view.create_time_ms),
    "WHY": lambda view: clean(view.failure or ""),
}


@click.group()
def webhook() -> None:
    """Tell other programs when a job ends, a gate decides, or a problem is new.

    Requests are signed as the Standard Webhooks have it, repeated until they are answered with 2xx, and hold
    no secrets.

    \b
      benchyard webhook create https://ci.example.test/benchyard
      benchyard webhook test whk_4kY...
    """


@webhook.command()
@click.argument("url")
@click.option(
    "--event", "events", multiple=True, type=click.Choice(EVENT_TYPES), help="Only this event; repeatable."
)
@click.option("--description", help="What it is for.")
@output_option
def create(url: str, events: Sequence[WebhookEventType], description: str | None, output: str) -> None:
    """Make a webhook, and show the key of its signatures, which is shown only here.

    Private networks and the server's own machine are closed to webhooks; `benchyard serve --webhook-allow`
    opens some.

    \b
      benchyard webhook create https://ci.example.test/benchyard
      benchyard webhook create https://ci.example.test/benchyard \\
          --event job.ended --event gate.verdict -o json
    """
    with connect() as client, checked_input():
        view = client.webhooks.create(url, list(events) or None, description)
    show(view, output, f"{view.id}  {clean(view.url)}\n  key of its signatures: {view.secret}")
    if output == "text":
        say(f"benchyard webhook test {view.id}")


@webhook.command("list")
@output_option
def list_(output: str) -> None:
    """List webhooks, without their keys.

    \b
      benchyard webhook list
    """
    with connect() as client:
        show_many(
            list(client.webhooks.list(limit=100)),
            output,
            COLUMNS,
            none="no webhooks; make one with `benchyard webhook create`",
            narrow=Narrow(shorten=["URL", "DESCRIPTION"], drop=["AGE", "DESCRIPTION", "EVENTS"]),
        )


@webhook.command("show")
@click.argument("id")
@click.option("--limit", type=IntRange(min=1), default=20, show_default=True, help="List at most this many.")
@output_option
def show_(id: str, limit: int, output: str) -> None:
    """Show what a webhook was told, newest first, and what still waits.

    \b
      benchyard webhook show whk_4kY...
      benchyard webhook show whk_4kY... -o json
    """
    with connect() as client:
        client.webhooks.get(id)
        found = list(islice(client.webhooks.deliveries(id, limit=limit), limit))
    none = f"nothing yet; try `benchyard webhook test {clean(id)}`"
    show_many(
        found, output, DELIVERY_COLUMNS, none=none, narrow=Narrow(shorten=["WHY"], drop=["ID", "TRIES"])
    )


@webhook.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def delete(ids: Sequence[str]) -> None:
    """Delete webhooks, with what they were not told yet.

    \b
      benchyard webhook delete whk_4kY...
    """
    with connect() as client:
        for id in ids:
            client.webhooks.delete(id)
            click.echo(f"{id}  deleted")


@webhook.command()
@click.argument("id")
@output_option
def test(id: str, output: str) -> None:
    """Send a test event once, and say how it was answered.

    \b
      benchyard webhook test whk_4kY...
    """
    with connect() as client:
        done = client.webhooks.test(id)
    told = (
        f"answered with {done.status}"
        if done.state == "delivered"
        else f"failed: {clean(done.failure or '')}"
    )
    show(done, output, f"{done.id}  {told}")
    if done.state != "delivered":
        raise click.exceptions.Exit(1)
