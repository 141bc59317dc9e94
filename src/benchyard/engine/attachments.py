"""Archives that a scenario has with it: tests that its scorers need, files of its reference output."""

from benchyard.engine.objects import Objects
from benchyard.errors import Conflict, NotFound, ScorerFailed
from benchyard.models.scenarios import Scenario

MOST_BYTES = 256 * 1024**2
"""Of one attachment: it is held in memory while it is put into a devbox."""


class Attachments:
    """What is attached to one scenario."""

    def __init__(self, objects: Objects, scenario: Scenario) -> None:
        self._objects = objects
        self._ids = scenario.attachments or {}
        self._name = scenario.name

    async def content(self, name: str) -> bytes:
        """The bytes of an attachment; raises ScorerFailed with what to do where they cannot be had."""
        if name not in self._ids:
            told = f"scenario {self._name!r} has no attachment {name!r}; import it again"
            raise ScorerFailed(told, cause="scorer")
        try:
            record, pieces = await self._objects.content(self._ids[name])
        except (NotFound, Conflict) as error:
            told = f"attachment {name!r} of the scenario: {error.message}; import it again"
            raise ScorerFailed(told, cause="scorer") from error
        if (record.size_bytes or 0) > MOST_BYTES:
            told = f"attachment {name!r} of the scenario is larger than {MOST_BYTES} bytes"
            raise ScorerFailed(told, cause="scorer")
        return b"".join([piece async for piece in pieces])
