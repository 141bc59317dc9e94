"""Migration of a database to the newest schema, safe also if several servers start at once."""

import importlib
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from benchyard.errors import StoreError
from benchyard.store.tables import metadata

FOLDER = Path(__file__).parent
"""Folder with the folder `versions`, whose files are named by their revisions: `r0009_first_release.py`."""
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
    """Upgrade inside the caller's transaction, which on SQLite must already hold the write lock.

    Raises StoreError for a database of a newer version, or of one before the first release.
    """
    known = _revisions()
    if _revision(connection) == known[-1]:
        return
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    revision = _revision(connection)
    if revision is None:
        metadata.create_all(connection, checkfirst=False)
        connection.execute(_MAKE_VERSION_TABLE)
        connection.execute(_NOTE_VERSION, {"newest": known[-1]})
    elif revision in known:
        importlib.import_module(f"{__name__}.upgrades").upgrade(connection, str(FOLDER))
    elif revision < known[0]:
        raise StoreError(
            f"the database was made before the first release of Benchyard (schema {revision}) and cannot be "
            "upgraded; use another --data folder or --database-url"
        )
    else:
        raise StoreError(
            f"the database was made by a newer Benchyard (schema {revision}); "
            "install that version, or use another --data folder or --database-url"
        )


def newest() -> str:
    """Return the newest schema version."""
    return _revisions()[-1]


def _revisions() -> list[str]:
    names = sorted(path.name for path in (FOLDER / "versions").glob("r[0-9]*_*.py"))
    return [name.removeprefix("r").partition("_")[0] for name in names]


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_VERSION_TABLE):
        return None
    return str(connection.execute(text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalar_one())  # noqa: S608
