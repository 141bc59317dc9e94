"""The files of one devbox."""

import io
import os
from pathlib import Path

from benchyard.client import files
from benchyard.client.bodies import Source
from benchyard.client.core import Steps
from benchyard.client.verbs import Group, S, call


class DevboxFiles(Group[S]):
    """The files of one devbox; `~` and relative paths start at its user's home."""

    def __init__(self, session: S, devbox_id: str) -> None:
        super().__init__(session)
        self._devbox_id = devbox_id

    @call
    def read(self, file_path: str) -> Steps[str]:
        """The text of a file."""
        return (yield from files.read_text(self._devbox_id, file_path))

    @call
    def write(self, file_path: str, contents: str) -> Steps[None]:
        """Write a file of this text, making its folders."""
        yield from files.write_text(self._devbox_id, file_path, contents)

    @call
    def upload(self, path: str, file: Source | os.PathLike[str]) -> Steps[None]:
        """Write a file of any bytes: those of a local path, of an open file, or these."""
        source = Path(file) if isinstance(file, os.PathLike) else file
        yield from files.upload_file(self._devbox_id, path, source)

    @call
    def download(self, path: str) -> Steps[bytes]:
        """The bytes of a file; `Devbox.download` takes those that are larger than memory."""
        held = io.BytesIO()
        yield from files.download_file(self._devbox_id, path, held)
        return held.getvalue()
