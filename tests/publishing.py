"""Makes definitions of a running server public, which no call does: those that ship with the package are."""

import sqlite3
from contextlib import closing

from benchyard.testing.server import RunningServer


def publish(server: RunningServer, *, scenarios: list[str], benchmarks: list[str]) -> None:
    """Make these scenarios and benchmarks public."""
    ids = {"scenarios": scenarios, "benchmarks": benchmarks}
    with closing(sqlite3.connect(server.data / "benchyard.db", timeout=30)) as connection, connection:
        for table, each in ids.items():
            marks = ",".join("?" * len(each))
            connection.execute(
                f"UPDATE {table} SET parent = 'public', body = json_set(body, '$.is_public', json('true')) "
                f"WHERE id IN ({marks})",
                each,
            )
