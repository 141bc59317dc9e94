"""Finds the devbox or snapshot a person means: by id or name, or a devbox by the beginning of its id."""

from benchyard.client.client import Client
from benchyard.errors import NotFound, UsageError
from benchyard.models.devboxes import DevboxStatus, DevboxView

SHORTEST_PREFIX = 6
SHOWN = 5
ENDED = (DevboxStatus.SHUTDOWN, DevboxStatus.FAILURE)


def devbox_named(client: Client, given: str) -> DevboxView:
    """The devbox of that id; else the one living devbox of that name, or whose id begins so."""
    try:
        return client.devboxes.get(given)
    except NotFound:
        matches = [
            view for view in client.devboxes.list() if view.status not in ENDED and _means(given, view)
        ]
    named = [view for view in matches if view.name == given] or matches
    if not named:
        raise NotFound(f"no devbox has the id or name {given!r}; `benchyard devbox list` shows all")
    if len(named) > 1:
        ids = ", ".join(view.id for view in named[:SHOWN])
        raise UsageError(f"{given!r} can mean {len(named)} devboxes ({ids}...); give the whole id")
    return named[0]


def snapshot_named(client: Client, given: str) -> str:
    """The id of the snapshot of that id; else of the one snapshot of that name."""
    try:
        client.snapshots.status(given)
    except NotFound:
        named = [view.id for view in client.snapshots.list() if view.name == given]
    else:
        return given
    if not named:
        raise NotFound(f"no snapshot has the id or name {given!r}; `benchyard snapshot list` shows all")
    if len(named) > 1:
        raise UsageError(
            f"{given!r} can mean {len(named)} snapshots ({', '.join(named[:SHOWN])}...); give the id"
        )
    return named[0]


def _means(given: str, view: DevboxView) -> bool:
    return view.name == given or (len(given) >= SHORTEST_PREFIX and view.id.startswith(given))
