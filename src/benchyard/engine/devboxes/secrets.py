"""Secrets given to a devbox, stored with it so that they can be removed from its output."""

import json
from collections.abc import Iterable, Sequence

from benchyard.engine.background import retry_store
from benchyard.engine.context import EngineContext
from benchyard.engine.redaction import Scrubber
from benchyard.errors import NotFound
from benchyard.models.devboxes import Devbox
from benchyard.store.vault import Vault


def seal_values(vault: Vault, values: Iterable[str]) -> str | None:
    """Seal values for a devbox's record; returns None if there are none."""
    kept = sorted(set(values))
    return vault.seal(json.dumps(kept)) if kept else None


def values_of_devbox(vault: Vault, devbox: Devbox) -> list[str]:
    """Return the values of the secrets that a devbox was started with, also if they have changed since."""
    values: list[str] = json.loads(vault.open(devbox.given)) if devbox.given else []
    return values


async def note_given_values(tools: EngineContext, devbox: Devbox, values: Sequence[str]) -> None:
    """Record that a devbox is being given these values."""

    def apply(record: Devbox) -> Devbox:
        known = values_of_devbox(tools.vault, record)
        if set(values) <= set(known):
            return record
        return record.model_copy(update={"given": seal_values(tools.vault, [*known, *values])})

    if not set(values) <= set(values_of_devbox(tools.vault, devbox)):
        await retry_store(tools.live_devboxes.change, devbox.id, apply)


async def scrubber_of(tools: EngineContext, devbox_id: str, more: Iterable[str] = ()) -> Scrubber:
    """Return a scrubber for a devbox's secrets, tokens and the keys behind them; `more` are names or ids."""
    try:
        devbox = await retry_store(tools.live_devboxes.get, devbox_id)
    except NotFound:
        # A devbox in no list, for scoring or building.
        return Scrubber(await _current_values(tools, more))
    tokens = [tools.vault.open(door.token) for door in devbox.doors if door.token]
    behind = [door.secret_id for door in devbox.doors]
    behind += [header.secret for door in devbox.doors for header in door.custom_headers if header.secret]
    others = await _current_values(tools, [*behind, *more])
    return Scrubber([*values_of_devbox(tools.vault, devbox), *tokens, *others])


async def _current_values(tools: EngineContext, names: Iterable[str]) -> list[str]:
    """Return the present values of secrets; deleted ones are left out."""
    found = []
    for name in dict.fromkeys(names):
        try:
            secret = await retry_store(tools.secrets.find, name)
        except NotFound:
            continue
        # Not retried: a secret sealed with another key stays unreadable.
        found.append(tools.vault.open(secret.sealed))
    return found
