"""Brings a database to the newest schema, safely also when several servers start at once."""

import importlib
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from benchyard.store.tables import metadata

_VERSIONS = Path(__file__).parent / "versions"
_VERSION_TABLE = "alembic_version"
# As alembic makes it, which goes on from here.
_MAKE_VERSION_TABLE = text(
    f"CREATE TABLE {_VERSION_TABLE} "
    f"(version_num VARCHAR(32) NOT NULL, CONSTRAINT {_VERSION_TABLE}_pkc PRIMARY KEY (version_num))"
)
_NOTE_VERSION = text(f"INSERT INTO {_VERSION_TABLE} (version_num) VALUES (:newest)")  # noqa: S608
# Any number does, as long as nobody else takes it in the same database.
_LOCK = 7411_0001


def migrate(connection: Connection) -> None:
    """Upgrade inside the caller's transaction, which on SQLite must already hold the write lock."""
    if _revisions(connection) == [newest()]:
        return
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    if inspect(connection).has_table(_VERSION_TABLE):
        importlib.import_module(f"{__name__}.upgrades").upgrade(connection)
    else:
        # What the steps of all versions come to, without the time that they and alembic take.
        metadata.create_all(connection, checkfirst=False)
        connection.execute(_MAKE_VERSION_TABLE)
        connection.execute(_NOTE_VERSION, {"newest": newest()})


def newest() -> str:
    """The newest schema, as the names of the files in `versions` tell: `r0001_first_tables.py` makes 0001."""
    names = sorted(path.name for path in _VERSIONS.glob("r[0-9]*_*.py"))
    return names[-1].removeprefix("r").partition("_")[0]


def _revisions(connection: Connection) -> list[str]:
    if not inspect(connection).has_table(_VERSION_TABLE):
        return []
    return list(connection.execute(text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalars())  # noqa: S608
