"""Lets work on a file tree, which runs in a thread, be stopped from outside of it."""

from _thread import get_ident


class Stopped(Exception):
    """The work was stopped half-way."""


class Flag:
    """Stops one piece of work once it is raised."""

    def __init__(self) -> None:
        self.is_raised = False

    def stop(self) -> None:
        """Have the work end as soon as it looks."""
        self.is_raised = True

    def __enter__(self) -> None:
        _flags[get_ident()] = self

    def __exit__(self, *_: object) -> None:
        del _flags[get_ident()]


_flags: dict[int, Flag] = {}


def check() -> None:
    """Raise Stopped if the work of this thread is to be stopped; called between any two pieces of it."""
    flag = _flags.get(get_ident())
    if flag is not None and flag.is_raised:
        raise Stopped
