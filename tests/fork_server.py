"""A program that has imported what a server needs, and turns copies of itself into servers when asked to.

Its one argument is the number of a socket. A request is a message with the arguments and the environment of
a server, and three descriptors: its output, its log, and where its process id and at last its status go.
"""

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import selectors
import socket
import sys
from typing import Any

ROOMS = (
    "api",
    "engine",
    "hosts",
    "devboxes",
    "images",
    "store",
    "models",
    "agents",
    "scorers",
    "reports",
    "gateway",
)
DESCRIPTORS = 3


def load() -> None:
    """Import what servers import, also what they do only when they need it."""
    for name in ("benchyard.cli.main", "benchyard.cli.serve", "uvicorn.lifespan.off"):
        importlib.import_module(name)
    for room in ROOMS:
        package = importlib.import_module(f"benchyard.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(".__main__"):
                importlib.import_module(module.name)
    gc.collect()
    # Copies share what is never written again, and the counts of what is looked through are.
    gc.freeze()


def fork_when_asked(asked: socket.socket) -> list[str]:
    """Make copies as long as anybody may ask; returns in a copy, with its arguments, and nowhere else."""
    selector = selectors.DefaultSelector()
    selector.register(asked, selectors.EVENT_READ)
    tellers: dict[int, tuple[int, int]] = {}
    while True:
        for key, _events in selector.select():
            if key.fileobj is not asked:
                selector.unregister(key.fileobj)
                _tell_the_end(key.fd, *tellers.pop(key.fd))
                continue
            message, given, _flags, _address = socket.recv_fds(asked, 1024**2, DESCRIPTORS)
            if not message:
                sys.exit()
            pid = os.fork()
            if pid == 0:
                selector.close()
                asked.close()
                for descriptor in (*tellers, *(teller for _pid, teller in tellers.values())):
                    os.close(descriptor)
                return _dressed(json.loads(message), *given)
            output, log, teller = given
            os.close(output)
            os.close(log)
            os.write(teller, b"%d\n" % pid)
            watched = os.pidfd_open(pid)
            tellers[watched] = (pid, teller)
            selector.register(watched, selectors.EVENT_READ)


def _tell_the_end(watched: int, pid: int, teller: int) -> None:
    _pid, status = os.waitpid(pid, 0)
    # A test that failed may have let go of it.
    with contextlib.suppress(BrokenPipeError):
        os.write(teller, b"%d\n" % os.waitstatus_to_exitcode(status))
    os.close(teller)
    os.close(watched)


def _dressed(request: dict[str, Any], output: int, log: int, teller: int) -> list[str]:
    nothing = os.open(os.devnull, os.O_RDONLY)
    for place, descriptor in enumerate((nothing, output, log)):
        os.dup2(descriptor, place)
        os.close(descriptor)
    os.close(teller)
    os.environ.clear()
    os.environ.update(request["environment"])
    arguments: list[str] = request["arguments"]
    return arguments


if __name__ == "__main__":
    load()
    arguments = fork_when_asked(socket.socket(fileno=int(sys.argv[1])))
    sys.argv = ["benchyard", *arguments]
    importlib.import_module("benchyard.cli.main").main()
