"""Brings a database to the newest schema, safely also when several servers start at once."""

import importlib
from pathlib import Path

from sqlalchemy import Connection, inspect, text

_VERSIONS = Path(__file__).parent / "versions"
_VERSION_TABLE = "alembic_version"


def migrate(connection: Connection) -> None:
    """Upgrade inside the caller's transaction, which on SQLite must already hold the write lock."""
    if _revisions(connection) != [newest()]:
        importlib.import_module(f"{__name__}.upgrading").upgrade(connection)


def newest() -> str:
    """The newest schema, as the names of the files in `versions` tell: `r0001_first_tables.py` makes 0001."""
    names = sorted(path.name for path in _VERSIONS.glob("r[0-9]*_*.py"))
    return names[-1].removeprefix("r").partition("_")[0]


def _revisions(connection: Connection) -> list[str]:
    if not inspect(connection).has_table(_VERSION_TABLE):
        return []
    return list(connection.execute(text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalars())  # noqa: S608
