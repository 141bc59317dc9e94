"""The steps of a start by name, so that the report of a failed step can give its remedy."""

from collections.abc import Iterator
from contextlib import contextmanager


class StartStepFailed(Exception):
    """A step of making a devbox failed; the cause is an OSError."""

    def __init__(self, name: str, error: OSError) -> None:
        super().__init__(f"{name}: {error}")
        self.name = name
        self.error = error


@contextmanager
def start_step(name: str) -> Iterator[None]:
    """Attribute any OSError inside to this step."""
    try:
        yield
    except OSError as error:
        raise StartStepFailed(name, error) from error
