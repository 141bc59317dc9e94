"""How work reaches a database: as plain functions over a connection, the same for every database."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from benchyard.errors import StoreError, UsageError

R = TypeVar("R")


class Connections(ABC):
    """The open connections to one database."""

    @abstractmethod
    async def read(self, work: Callable[[Connection], R]) -> R:
        """Run statements that only read."""

    @abstractmethod
    async def write(self, work: Callable[[Connection], R]) -> R:
        """Run a transaction: committed when `work` returns, undone when it raises."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of the database."""


@contextmanager
def database_errors() -> Iterator[None]:
    """Turn what a database raises into our own errors; a broken constraint passes through."""
    try:
        yield
    except IntegrityError:
        raise
    except DataError as error:
        raise UsageError("the database cannot keep one of these values; remove control characters") from error
    except (SQLAlchemyError, OSError) as error:
        reason = str(getattr(error, "orig", None) or error).partition("\n")[0] or type(error).__name__
        raise StoreError(f"the database does not answer: {reason}") from error
