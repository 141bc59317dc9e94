"""Migration of a database to the newest schema, safe also if several servers start at once."""

import importlib
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from benchyard.store.tables import metadata

_VERSIONS = Path(__file__).parent / "versions"
_VERSION_TABLE = "alembic_version"
# The same table as alembic creates, since alembic continues from it.
_MAKE_VERSION_TABLE = text(
    f"CREATE TABLE {_VERSION_TABLE} "
    f"(version_num VARCHAR(32) NOT NULL, CONSTRAINT {_VERSION_TABLE}_pkc PRIMARY KEY (version_num))"
)
_NOTE_VERSION = text(f"INSERT INTO {_VERSION_TABLE} (version_num) VALUES (:newest)")  # noqa: S608
# Any number, if no other program uses it for a lock in the same database.
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
        # Equal to the migrations of all versions, without the time that they and alembic take.
        metadata.create_all(connection, checkfirst=False)
        connection.execute(_MAKE_VERSION_TABLE)
        connection.execute(_NOTE_VERSION, {"newest": newest()})


def newest() -> str:
    """Return the newest schema version, from file names in `versions`: `r0001_first_tables.py` makes 0001."""
    names = sorted(path.name for path in _VERSIONS.glob("r[0-9]*_*.py"))
    return names[-1].removeprefix("r").partition("_")[0]


def _revisions(connection: Connection) -> list[str]:
    if not inspect(connection).has_table(_VERSION_TABLE):
        return []
    return list(connection.execute(text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalars())  # noqa: S608
