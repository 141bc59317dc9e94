"""What a scorer is told in its environment: its own parameters, and facts of the run it grades."""

import marshal
from collections.abc import Mapping
from typing import Any

from benchyard.errors import ScorerFailed, WorkerFailed
from benchyard.scorers import context_texts
from benchyard.scorers.base import Context, Room
from benchyard.scorers.context_texts import VARIABLES
from benchyard.workers.workers import SMALL_BYTES, Limits

FILE_VARIABLE = "BENCHYARD_SCORER_CONTEXT_FILE"

_TEXTS = "benchyard.scorers.context_texts:texts_of"
_LIMITS = Limits(output_bytes=256 * 1024**2)
_SHUTS_OUT = {"BASH_ENV": "", "ENV": ""}
"""Files that shells would read before a script: none."""


async def environment(
    room: Room, context: Context, params: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """The variables for a scorer's commands; the whole context goes to the room as a file too."""
    try:
        # Of what is small, the work; of what is large, no more than a copy.
        given = marshal.dumps([dict(context.facts), dict(params or {})])
        if len(given) <= SMALL_BYTES:
            whole, shown = context_texts.texts(context.facts, params or {})
            content = whole.encode()
        else:
            made = await context.call(_TEXTS, given, limits=_LIMITS)
            shown, content = context_texts.split(made)
    except (ValueError, WorkerFailed) as error:
        raise ScorerFailed(f"the facts of this run cannot be told to a scorer: {error}") from error
    path = await room.keep("context.json", content)
    return {**_SHUTS_OUT, **dict.fromkeys(VARIABLES, shown), FILE_VARIABLE: path}
