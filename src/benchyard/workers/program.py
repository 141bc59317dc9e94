"""The program that starts workers: it forks one for each job, and reports how it ended.

    python -I program.py CONTROL_DESCRIPTOR

A job comes as one message with three descriptors: a socket for its answer, the parameters as JSON, and the
content. The named function runs in a process of its own, forked from this one. This process never reads any
content: damage that a worker does to itself ends with the worker, and does not affect other workers.
"""

import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

_PACKAGES = str(Path(__file__).resolve().parents[2])
if __name__ == "__main__" and _PACKAGES not in sys.path:
    # The program is run by its path, so the package has to be found from there.
    sys.path.append(_PACKAGES)

from benchyard.devboxes.guest import syscalls  # noqa: E402

MOST_MESSAGE_BYTES = 64 * 1024
DESCRIPTORS = 3
_MOST_ERROR = 500
_NICE = 5


def main(control_descriptor: int) -> None:
    """Start workers until the server closes its end of the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with socket.socket(fileno=control_descriptor) as control:
        _Starter(control).serve()


class _Starter:
    """The workers by process id, each with the socket for its answer."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._jobs: dict[int, socket.socket] = {}
        self._woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)

    def serve(self) -> None:
        try:
            while True:
                for descriptor, _ in self._poll.poll():
                    if descriptor == self._control.fileno():
                        if not self._take():
                            return
                    elif descriptor == self._woken:
                        os.read(self._woken, 4096)
                        self._reap()
                    else:
                        self._end(descriptor)
        finally:
            for pid in self._jobs:
                os.kill(pid, signal.SIGKILL)

    def _take(self) -> bool:
        """Start the worker of the next job; return False if there are no more."""
        message, descriptors, _, _ = socket.recv_fds(self._control, MOST_MESSAGE_BYTES, DESCRIPTORS)
        if not message:
            return False
        reply, *inputs = descriptors
        answers = socket.socket(fileno=reply)
        try:
            job = json.loads(message)
            # Imported before the fork, so only once; only our own modules are imported, for any job.
            module, _, name = job["function"].partition(":")
            function = getattr(importlib.import_module(module), name)
            gc.freeze()
            pid = os.fork()
        except (OSError, ImportError, AttributeError) as error:
            _tell(answers, {"unstarted": f"{type(error).__name__}: {error}"[:_MOST_ERROR]})
            answers.close()
        else:
            if pid == 0:
                self._become_worker(answers, inputs, function, job)
            self._jobs[pid] = answers
            # If the server closes its end, it no longer waits for the answer.
            self._poll.register(answers, select.POLLHUP)
        finally:
            for descriptor in inputs:
                os.close(descriptor)
        return True

    def _become_worker(
        self, answers: socket.socket, inputs: list[int], function: Any, job: dict[str, Any]
    ) -> NoReturn:
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for other in (self._control, *self._jobs.values()):
                other.close()
            os.close(self._woken)
            work(answers, inputs, function, job)
            status = 0
        finally:
            os._exit(status)

    def _reap(self) -> None:
        while self._jobs:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            answers = self._jobs.pop(pid)
            self._poll.unregister(answers)
            _tell(answers, {"ended": os.waitstatus_to_exitcode(status)})
            answers.close()

    def _end(self, descriptor: int) -> None:
        """Kill a worker when its result is no longer wanted."""
        for pid, answers in self._jobs.items():
            if answers.fileno() == descriptor:
                self._poll.unregister(answers)
                self._poll.register(answers, 0)
                os.kill(pid, signal.SIGKILL)


def work(answers: socket.socket, inputs: list[int], function: Any, job: dict[str, Any]) -> None:
    """Do one job within its limits, in a process that does nothing else."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    os.nice(_NICE)
    with open(inputs[0], "rb") as file:  # noqa: PTH123  (a descriptor)
        parameters = json.load(file)
    seconds, memory, output = job["seconds"], job["memory_bytes"], job["output_bytes"]
    spent = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(spent.ru_utime + spent.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (output, output))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        with open(inputs[1], "rb") as content:  # noqa: PTH123
            result = function(content, **parameters)
        if isinstance(result, bytes):
            _send_bytes(answers, result)
        else:
            text = json.dumps(result).encode()
            if len(text) > min(output, MOST_MESSAGE_BYTES - 1024):
                _tell(answers, {"exceeded": "output"})
            else:
                answers.send(b'{"made": ' + text + b"}")
    except MemoryError:
        _tell(answers, {"exceeded": "memory"})
    except Exception as error:  # noqa: BLE001  (whatever it is, the server is told of it)
        _tell(answers, {"failed": f"{type(error).__name__}: {error}"[:_MOST_ERROR]})


def _send_bytes(answers: socket.socket, content: bytes) -> None:
    """Send bytes of any size, in a file in memory."""
    descriptor = os.memfd_create("made")
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    socket.send_fds(answers, [b'{"size": %d}' % len(content)], [descriptor])


def _tell(answers: socket.socket, told: dict[str, Any]) -> None:
    try:
        answers.send(json.dumps(told).encode())
    except OSError:
        # The server no longer waits for the answer.
        return


def whole(content: BinaryIO, limit: int) -> bytes | None:
    """Return the whole content; None if it exceeds the limit."""
    data = content.read(limit + 1)
    return data if len(data) <= limit else None


if __name__ == "__main__":
    main(int(sys.argv[1]))
