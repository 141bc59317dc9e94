"""Trees handled inside the driver's id mapping, by children of the zygote."""

from pathlib import Path
from typing import Any

from benchyard.devboxes.base import Trees
from benchyard.devboxes.box import ids
from benchyard.devboxes.parts.zygote import ZygoteProcess
from benchyard.errors import DevboxError, ImageError

_DONE = frozenset({"result"})


class MappedTrees(Trees):
    """Every verb is one forked child that enters the mode's user namespace first."""

    def __init__(self, zygote: ZygoteProcess, mode: str) -> None:
        self._zygote = zygote
        self._mode = mode
        self._has_ids = mode != ids.ROOTLESS_SINGLE

    async def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        request = {
            "op": "call",
            "call": name,
            "arguments": arguments,
            "options": options,
            "mode": self._mode,
            "slot": 0,
            "can_change_user": self._has_ids,
        }
        answer = await self._zygote.ask(request, [], _DONE)
        text = answer.find("error")
        if text is not None:
            kind = ImageError if name == "unpack" else DevboxError
            raise kind(f"{name} of {arguments[0]} failed: {text}")
        if not answer.messages:
            raise DevboxError(f"{name} of {arguments[0]} was interrupted")
        return answer.find("result")

    async def copy(self, source: Path, target: Path) -> None:
        await self._call("copy", str(source), str(target), keep_owner=self._has_ids)

    async def remove(self, path: Path) -> None:
        await self._call("remove", str(path))

    async def usage(self, path: Path) -> tuple[int, int]:
        size, entries = await self._call("usage", str(path))
        return size, entries

    async def unpack(self, archive: Path, target: Path) -> None:
        await self._call("unpack", str(archive), str(target), keep_owner=self._has_ids)

    async def sync(self, path: Path) -> None:
        await self._call("sync", str(path))
