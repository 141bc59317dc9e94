"""A shell in the devbox that is asked about files, as any image with the usual tools can answer."""

import asyncio
import re
import secrets
from collections.abc import Callable

import asyncssh

from benchyard.api.ssh.following import Following
from benchyard.api.ssh.serving.sessions import Place
from benchyard.devboxes.base import Stdin
from benchyard.engine.devboxes.commands import SSH_PREFIX
from benchyard.engine.ids import random_id
from benchyard.errors import BenchyardError
from benchyard.hosts.host import ExecRequest

_ANSWER_SECONDS = 60.0
_MOST_BYTES = 32 * 1024**2
_Error = Callable[[str], asyncssh.SFTPError]
_ERRORS: tuple[tuple[bytes, _Error], ...] = (
    (b"No such file", asyncssh.SFTPNoSuchFile),
    (b"Not a directory", asyncssh.SFTPNoSuchFile),
    (b"ermission denied", asyncssh.SFTPPermissionDenied),
    (b"not permitted", asyncssh.SFTPPermissionDenied),
)
_SHELL = "cd; exec /bin/sh"
_LEADING = re.compile(rb"^[^:\n]{1,64}: (line \d+: )?")


def quoted(data: bytes) -> bytes:
    """Any bytes but NUL as one word."""
    if b"\0" in data:
        raise asyncssh.SFTPBadMessage("a path cannot hold a NUL byte")
    return b"'" + data.replace(b"'", b"'\\''") + b"'"


def path_word(path: bytes) -> bytes:
    """A path as one word that no program takes for an option."""
    return quoted(path if path.startswith(b"/") else b"./" + path)


class FileShell:
    """One shell, started at the first question, that answers one question after the other."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._id = random_id(SSH_PREFIX)
        self._following = Following(place.host, place.devbox_id, self._id)
        self._asking = asyncio.Lock()
        self._offset = 0
        self._is_begun = False

    async def ask(self, question: bytes) -> bytes:
        """What these commands print; raises SFTPError if they fail."""
        async with self._asking:
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await self._begin()
                    answer, status = await self._exchange(question)
            except TimeoutError as error:
                await self.close()
                raise asyncssh.SFTPFailure("the devbox did not answer in time") from error
            except BenchyardError as error:
                raise asyncssh.SFTPFailure(error.message) from error
        if status:
            raise _error(answer)
        return answer

    async def _begin(self) -> None:
        place = self._place
        await place.engine.devboxes.running(place.devbox_id)
        if not self._is_begun:
            request = ExecRequest(id=self._id, command=_SHELL, attach_stdin=True, env={"LC_ALL": "C"})
            await place.host.exec(place.devbox_id, request)
            self._is_begun = True
            # Whatever a login prints comes before the first answer.
            await self._exchange(b":")

    async def _exchange(self, question: bytes) -> tuple[bytes, int]:
        mark = secrets.token_hex(16).encode()
        # Errors go to the same stream; the answer ends with a mark that nobody can foresee.
        script = b"( %b\n) 2>&1 </dev/null; printf '%%s %%d\\n' %b $?\n" % (question, mark)
        await self._place.host.control(self._place.devbox_id, self._id, Stdin(script))
        self._following.fed()
        return await self._answer(mark)

    async def _answer(self, mark: bytes) -> tuple[bytes, int]:
        told = bytearray()
        end = re.compile(mark + rb" (\d+)\n")
        async for piece in self._following.output("stdout", self._offset):
            self._offset += len(piece)
            told += piece
            if found := end.search(told, max(0, len(told) - len(piece) - len(mark) - 8)):
                return bytes(told[: found.start()]), int(found[1])
            if len(told) > _MOST_BYTES:
                break
        await self.close()
        raise asyncssh.SFTPFailure("the devbox did not say all it had to")

    async def close(self) -> None:
        """End the shell."""
        if self._is_begun:
            await self._place.engine.ssh_keys.hang_up(self._place.devbox_id, self._id)


def _error(said: bytes) -> asyncssh.SFTPError:
    line = said.strip().splitlines()[-1:] or [b"it failed"]
    text = _LEADING.sub(b"", line[0])[:500].decode(errors="replace")
    for part, kind in _ERRORS:
        if part in line[0]:
            return kind(text)
    return asyncssh.SFTPFailure(text)
