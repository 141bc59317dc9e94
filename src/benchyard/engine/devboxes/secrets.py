"""Secrets a devbox was given, kept with it so that they can be taken out of its output."""

import json
from collections.abc import Iterable, Sequence
from functools import partial

from benchyard.engine.background import retry_store
from benchyard.engine.context import EngineContext
from benchyard.engine.redaction import Scrubber
from benchyard.errors import NotFound
from benchyard.models.devboxes import Devbox
from benchyard.store.vault import Vault


def seal_values(vault: Vault, values: Iterable[str]) -> str | None:
    """Values as a devbox keeps them; None where there are none."""
    kept = sorted(set(values))
    return vault.seal(json.dumps(kept)) if kept else None


def values_of_devbox(vault: Vault, devbox: Devbox) -> list[str]:
    """The values of the secrets that a devbox was started with, also of those that are other ones by now."""
    values: list[str] = json.loads(vault.open(devbox.given)) if devbox.given else []
    return values


async def note_given_values(tools: EngineContext, devbox: Devbox, values: Sequence[str]) -> None:
    """Keep with a devbox that it is being given these values."""

    def apply(record: Devbox) -> Devbox:
        known = values_of_devbox(tools.vault, record)
        if set(values) <= set(known):
            return record
        return record.model_copy(update={"given": seal_values(tools.vault, [*known, *values])})

    if not set(values) <= set(values_of_devbox(tools.vault, devbox)):
        await retry_store(partial(tools.live_devboxes.change, devbox.id, apply))


async def scrubber_of(tools: EngineContext, devbox_id: str, more: Iterable[str] = ()) -> Scrubber:
    """What knows the secrets of a devbox, its tokens and the keys behind them; `more` are names or ids."""
    try:
        devbox = await retry_store(partial(tools.live_devboxes.get, devbox_id))
    except NotFound:
        # A devbox that is in no list: one to score in, or to build in.
        return Scrubber(await _current_values(tools, more))
    tokens = [tools.vault.open(each.token) for each in devbox.doors if each.token]
    behind = [each.secret_id for each in devbox.doors]
    behind += [header.secret for each in devbox.doors for header in each.custom_headers if header.secret]
    others = await _current_values(tools, [*behind, *more])
    return Scrubber([*values_of_devbox(tools.vault, devbox), *tokens, *others])


async def _current_values(tools: EngineContext, names: Iterable[str]) -> list[str]:
    """The values that secrets have now; one that is gone is not known any more."""
    found = []
    for name in dict.fromkeys(names):
        try:
            secret = await retry_store(partial(tools.secrets.find, name))
        except NotFound:
            continue
        # Not asked again for ever: one that another key has sealed stays so.
        found.append(tools.vault.open(secret.sealed))
    return found
