"""Naming the step of a start that failed, so that the report can say what to do about it."""

from collections.abc import Iterator
from contextlib import contextmanager


class StepFailed(Exception):
    """A step of making a devbox failed; the cause is an OSError."""

    def __init__(self, name: str, error: OSError) -> None:
        super().__init__(f"{name}: {error}")
        self.name = name
        self.error = error


@contextmanager
def step(name: str) -> Iterator[None]:
    """Attribute any OSError inside to this step."""
    try:
        yield
    except OSError as error:
        raise StepFailed(name, error) from error
