"""A server whose clock is set by a file: as when somebody corrects the time of its machine."""

from pathlib import Path

from benchyard.testing.server import RunningServer

# Python runs a module of this name before anything else; the clock of timers is left as it is.
_SHIM = """
import time

_time, _time_ns = time.time, time.time_ns

def _offset():
    with open({file!r}) as file:
        return int(file.read())

time.time = lambda: _time() + _offset()
time.time_ns = lambda: _time_ns() + _offset() * 10**9
"""


class Clock:
    """How far the clock of a server is off, in seconds."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self._shim = folder / "shim"
        self._shim.mkdir()
        (self._shim / "sitecustomize.py").write_text(_SHIM.format(file=str(self._file)))
        self.set(0)

    def set(self, seconds: int) -> None:
        """Set it; what is asked for the time from now on is answered so."""
        new = self._file.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._file)

    def server(self, data: Path) -> RunningServer:
        """A server that goes by this clock."""
        return RunningServer(data, environment={"PYTHONPATH": str(self._shim)})
