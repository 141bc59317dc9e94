"""Files of a devbox: text in and out, and any bytes up and down."""

import io
import os
from pathlib import Path

import httpx

from benchyard.client.bodies import Progress, Sized, Source, Target, multipart, no_progress, open_target
from benchyard.client.methods import NounObject, S, VerbGroup, call
from benchyard.client.operations import TRANSFER_TIMEOUT, Request, Steps, at, open_body, read, send
from benchyard.errors import ServerUnreachable


class Files(VerbGroup[S]):
    """The files of a server's devboxes; `~` and relative paths start at the devbox user's home."""

    @call
    def read(self, devbox_id: str, path: str) -> Steps[str]:
        """Return the text of a file."""
        reply = yield from send(_file_request(devbox_id, "read_file_contents", {"file_path": path}))
        return reply.content.decode(errors="replace")

    @call
    def write(self, devbox_id: str, path: str, text: str) -> Steps[None]:
        """Write this text to a file, making its folders."""
        body = {"file_path": path, "contents": text}
        yield from send(_file_request(devbox_id, "write_file_contents", body))

    @call
    def upload(
        self, devbox_id: str, path: str, source: Source, progress: Progress = no_progress
    ) -> Steps[None]:
        """Write a file of any bytes and size; an open file is read to its end and sent once."""
        url = at("/v1/devboxes/{}/upload_file", devbox_id)
        body = multipart(path, source, progress)
        yield from send(Request("POST", url, body=body, timeout=TRANSFER_TIMEOUT))

    @call
    def download(
        self, devbox_id: str, path: str, target: Target, progress: Progress = no_progress
    ) -> Steps[int]:
        """Fetch a file of any bytes and size; a path appears only when it is complete. Returns the size."""
        request = _file_request(devbox_id, "download_file", {"path": path})
        return (yield from download(request, target, progress))


def download(
    request: Request, target: Target, progress: Progress = no_progress, sized: Sized = no_progress
) -> Steps[int]:
    """Write an answer's body to the target as it comes."""
    size = 0
    reply = yield from open_body(request)
    if (length := reply.headers.get("content-length", "")).isdecimal():
        sized(int(length))
    with open_target(target) as file:
        try:
            while chunk := (yield from read()):
                size += len(chunk)
                file.write(chunk)
                progress(len(chunk))
        except httpx.TransportError as error:
            raise ServerUnreachable(f"the download was cut after {size} bytes; try again") from error
    return size


def _file_request(devbox_id: str, verb: str, body: dict[str, str]) -> Request:
    return Request("POST", at("/v1/devboxes/{}/{}", devbox_id, verb), json=body, timeout=TRANSFER_TIMEOUT)


class DevboxFiles(NounObject[S]):
    """The files of one devbox; `~` and relative paths start at its user's home."""

    def __init__(self, session: S, id: str) -> None:
        super().__init__(session, id)
        self._files: Files[S] = Files(session)

    @call
    def read(self, file_path: str) -> Steps[str]:
        """Return the text of a file."""
        return (yield from self._files.read.steps(self.id, file_path))

    @call
    def write(self, file_path: str, contents: str) -> Steps[None]:
        """Write this text to a file, making its folders."""
        yield from self._files.write.steps(self.id, file_path, contents)

    @call
    def upload(self, path: str, file: Source | os.PathLike[str]) -> Steps[None]:
        """Write a file of any bytes: those of a local path, of an open file, or these."""
        source = Path(file) if isinstance(file, os.PathLike) else file
        yield from self._files.upload.steps(self.id, path, source)

    @call
    def download(self, path: str) -> Steps[bytes]:
        """Return the bytes of a file; use `Devbox.download` for files larger than memory."""
        held = io.BytesIO()
        yield from self._files.download.steps(self.id, path, held)
        return held.getvalue()
