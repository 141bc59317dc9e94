"""What an agent left in its folder of logs, kept with the run: its trajectory, and what else lies there."""

import logging
import os
import re
import stat

from benchyard.agents.base import TRAJECTORY
from benchyard.engine.descriptors import read_pieces
from benchyard.engine.jobs.way import Way, scrubber
from benchyard.engine.scrubbing import Scrubber
from benchyard.engine.setup import completed
from benchyard.errors import BenchyardError, TooLarge
from benchyard.hosts.host import ExecRequest

MOST_FILES = 50
MOST_FILE_BYTES = 32 * 1024**2
MOST_BYTES = 128 * 1024**2
_OBJECT_PREFIX = "obj_"
_LIST_EXECUTION = "agent-logs"
_LIST = 'cd -- "$1" && shift && find . -type f "$@" | head -n 200'
_LIST_SECONDS = 30.0
_MOST_LISTED = 200
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")

_log = logging.getLogger(__name__)


async def collect(way: Way) -> None:
    """Keep the agent's logs; what cannot be kept is told in the server's log, and the trial goes on."""
    left = MOST_BYTES
    clean = await scrubber(way)
    for path in (await _paths(way))[:MOST_FILES]:
        try:
            left -= await _keep(way, path, min(left, MOST_FILE_BYTES), clean)
        except (BenchyardError, OSError) as error:
            told = clean.text(f"{path} of the agent's logs is not kept: {error}")
            _log.warning("trial %s: %s", way.trial.id, told)


async def _paths(way: Way) -> list[str]:
    """The files in the folder of logs, the trajectory first."""
    tools, devbox_id = way.desk.tools, way.the_devbox.id
    folder = way.task().logs_folder
    # Of a later round, what it changed: the prompt was written when it began.
    prompt = way.task().prompt_file if way.round > 1 else None
    try:
        names = await tools.host.rooms.files(devbox_id, folder, way.user, prompt, _MOST_LISTED)
    except BenchyardError as error:
        _log.warning("trial %s: the agent's logs are not kept: %s", way.trial.id, error)
        return []
    if names is not None:
        return _in_order({f"{folder}/{name}" for name in names})
    newer = ("-newer", prompt) if prompt else ()
    argv = ("/bin/sh", "-c", _LIST, "sh", folder, *newer)
    request = ExecRequest(
        id=way.numbered(_LIST_EXECUTION),
        argv=argv,
        cwd="/",
        user=way.user,
        timeout_seconds=_LIST_SECONDS,
        strict=True,
    )
    try:
        state = await completed(tools, await tools.host.exec(devbox_id, request))
        text, _ = await tools.host.tail(devbox_id, state.id, "stdout", 200)
    except BenchyardError as error:
        _log.warning("trial %s: the agent's logs are not kept: %s", way.trial.id, error)
        return []
    return _in_order({f"{folder}/{line[2:]}" for line in text.splitlines() if line.startswith("./")})


def _in_order(found: set[str]) -> list[str]:
    return sorted(found, key=lambda path: (path != TRAJECTORY, path))


async def _keep(way: Way, path: str, most: int, clean: Scrubber) -> int:
    """Keep one file, without secrets, as a trace of the run; its size. The same again changes nothing."""
    tools = way.desk.tools
    name = _name(clean.text(path.removeprefix(way.task().logs_folder).strip("/")))
    if way.round > 1:
        name = f"round-{way.round}__{name}"[:200]
    descriptor = await tools.host.open_read(way.the_devbox.id, path, way.user)
    try:
        about = os.fstat(descriptor)
        if not about.st_size or not stat.S_ISREG(about.st_mode):
            return 0
        if about.st_size > most:
            raise TooLarge(f"{path} is larger than {most} bytes")
        # In pieces from one disk to the other: agents choose how large it is.
        pieces = clean.pieces(read_pieces(descriptor, path, about.st_size))
        run_id = str(way.trial.scenario_run_id)
        await way.desk.traces.keep(run_id, name, pieces, None if path == TRAJECTORY else "file")
        return about.st_size
    finally:
        os.close(descriptor)


def _name(path: str) -> str:
    name = _UNSAFE.sub("_", path.replace("/", "__")).lstrip("._-")[-200:]
    return name if name and name[0].isalnum() else f"log-{name}"[:200]
