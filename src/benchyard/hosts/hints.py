"""What to do about an execution that went wrong, when that can be told."""

import re
import signal
from pathlib import Path

from benchyard.devboxes.base import Network, Status
from benchyard.hosts.output import size

_LOOKED_AT_BYTES = 4096
_NEEDED_NETWORK = re.compile(
    rb"could not resolve|name resolution|name or service not known|network is unreachable|unknown host"
    rb"|nodename nor servname|getaddrinfo|enotfound|eai_again|failed to resolve|no such host"
    rb"|temporary failure resolving|could not connect to server|no route to host",
    re.IGNORECASE,
)
_NEEDED_DISK = re.compile(
    rb"no space left on device|disk quota exceeded|file too large|file size limit exceeded", re.IGNORECASE
)
_OUTPUT = "output was "
_STOPPED_AT_FILE_LIMIT = 128 + signal.SIGXFSZ

OUT_OF_MEMORY = "A process was killed because the devbox ran out of memory: create it with a larger size."
OUT_OF_DISK = "The devbox's disk is full, or a file became as large as it: create it with a larger size."
NO_NETWORK = (
    "The command seems to have needed the network, and this devbox has none: create it with the metadata "
    "`benchyard.network=host`, or start the server with `benchyard serve --devbox-network host`."
)
REACHED_OUT = (
    "A program in this devbox looked a name up or called an address outside, and this devbox has no network: "
    "what it was to fetch is missing, whatever its exit status. Create the devbox with a network policy or "
    "with the metadata `benchyard.network=host`, or start the server with "
    "`benchyard serve --devbox-network host`."
)


def from_status(status: Status, output_bytes: int) -> str | None:
    """What the status alone tells of a command that was granted so much output."""
    if status.timed_out:
        return "The command ran into its time limit; it and everything it had started was killed."
    if status.error and status.error.startswith(_OUTPUT):
        return f"The command was not stopped, but its {status.error}."
    if status.error:
        return f"The command was cut short: {status.error}."
    if status.stdout_truncated or status.stderr_truncated:
        return f"The output was cut after {output_bytes} bytes; send it to a file and download that."
    return None


def from_output(status: Status, network: Network, folder: Path) -> str | None:
    """What the end of the output tells about a command that failed."""
    if status.exit_status == 0 or status.killed:
        return None
    ends = [_end(folder / name) for name in ("stderr", "stdout")]
    if status.exit_status == _STOPPED_AT_FILE_LIMIT or any(_NEEDED_DISK.search(end) for end in ends):
        return OUT_OF_DISK
    if network is Network.NONE and any(_NEEDED_NETWORK.search(end) for end in ends):
        return NO_NETWORK
    return None


def _end(path: Path) -> bytes:
    length = size(path)
    if not length:
        return b""
    with path.open("rb") as file:
        file.seek(max(0, length - _LOOKED_AT_BYTES))
        return file.read(_LOOKED_AT_BYTES)
