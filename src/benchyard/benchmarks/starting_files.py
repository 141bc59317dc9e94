"""Files that are in a devbox when work begins, carried by its launch commands.

The wire gives a scenario's environment no files, but launch commands, which every server and client of the
protocol keeps. So each file is one command, of a shape that can be read back.
"""

import base64
import binascii
import posixpath
import re
import shlex
from dataclasses import dataclass

from benchyard.errors import TooLarge

MOST_BYTES = 64 * 1024
"""Of one file: the kernel takes no longer command than 128 KiB, and base64 adds a third."""
_WIDTH = 76
_COMMAND = re.compile(
    r"p=(?P<path>.+); mkdir -p -- \"\$\(dirname -- \"\$p\"\)\" && base64 -d > \"\$p\" <<'END' && "
    r"chmod (?P<mode>[0-7]{3,4}) -- \"\$p\"\n(?P<content>[A-Za-z0-9+/=\n]*)END",
)


@dataclass(frozen=True)
class StartingFile:
    """One file, from the working directory unless its path is absolute."""

    path: str
    content: bytes
    mode: int = 0o644


def command(file: StartingFile, working_directory: str | None) -> str:
    """The launch command that writes a file; raises TooLarge."""
    if len(file.content) > MOST_BYTES:
        raise TooLarge(
            f"{file.path}: it has {len(file.content)} bytes; a file that is there from the start has at most "
            f"{MOST_BYTES}. Put larger ones into an image: `environment: {{dockerfile: ...}}`"
        )
    path = shlex.quote(posixpath.join(working_directory or "", file.path))
    encoded = base64.b64encode(file.content).decode()
    lines = "".join(f"{encoded[at : at + _WIDTH]}\n" for at in range(0, len(encoded), _WIDTH))
    return (
        f'p={path}; mkdir -p -- "$(dirname -- "$p")" && base64 -d > "$p" <<\'END\' && '
        f'chmod {file.mode:o} -- "$p"\n{lines}END'
    )


def parsed(text: str, working_directory: str | None) -> StartingFile | None:
    """The file that a launch command writes; None if it is a command of another kind."""
    found = _COMMAND.fullmatch(text)
    if found is None:
        return None
    try:
        (path,) = shlex.split(found["path"])
        content = base64.b64decode(found["content"].replace("\n", ""), validate=True)
    except (ValueError, binascii.Error):
        return None
    base = f"{working_directory.rstrip('/')}/" if working_directory else ""
    file = StartingFile(path.removeprefix(base), content, int(found["mode"], 8))
    # Whoever wrote it by hand may have meant something that only looks like it.
    return file if len(content) <= MOST_BYTES and command(file, working_directory) == text else None
