"""One server per database: a second one is refused and told who has it."""

import asyncio
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import Connection, make_url, text

from benchyard.errors import Conflict, StoreError
from benchyard.store.claims import claim_database, take_lock
from benchyard.store.postgres import PostgresConnections
from benchyard.testing.contracts.driver_fixture import eventually
from benchyard.testing.server import RunningServer

_END_HOLDER = text("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
_TAKE = text("SELECT pg_advisory_lock(1650814563)")


def never(reason: str) -> None:
    raise AssertionError(reason)


def test_a_second_claim_is_refused_with_the_name_of_the_first(database_url: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with claim_database(database_url, tmp_path / "one", never):
            with pytest.raises(Conflict, match=r"another server .* process \d+.*--database-url"):
                async with claim_database(database_url, tmp_path / "two", never):
                    pass
        async with claim_database(database_url, tmp_path / "two", never):
            pass

    asyncio.run(main())


def test_databases_of_one_postgres_are_claimed_one_by_one(
    postgres_database: str, postgres_url: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with (
            claim_database(postgres_database, tmp_path, never),
            claim_database(postgres_url, tmp_path, never),
        ):
            pass

    asyncio.run(main())


def test_a_claim_is_taken_again_after_its_connection_broke(postgres_database: str, tmp_path: Path) -> None:
    async def main() -> None:
        connections = PostgresConnections(make_url(postgres_database))
        async with claim_database(postgres_database, tmp_path, never):
            await connections.read(_ended)
            async with asyncio.timeout(30):
                while not await connections.read(_is_held):
                    continue
        await connections.close()

    asyncio.run(main())


def test_loss_of_the_claim_is_reported(postgres_database: str, tmp_path: Path) -> None:
    lost: list[str] = []

    def take_over(connection: Connection) -> None:
        connection.execute(_END_HOLDER)
        connection.execute(_TAKE)

    async def main() -> None:
        connections = PostgresConnections(make_url(postgres_database))
        async with claim_database(postgres_database, tmp_path, lost.append):
            await connections.read(take_over)
            await eventually(lambda: bool(lost), "the word that it is lost")
        await connections.close()

    asyncio.run(main())
    assert "another server" in lost[0]


def test_a_postgres_that_is_not_there_is_a_store_error(tmp_path: Path) -> None:
    async def main() -> None:
        async with claim_database("postgresql://nobody@127.0.0.1:1/x", tmp_path, never):
            pass

    with pytest.raises(StoreError, match="does not answer"):
        asyncio.run(main())


def test_a_server_does_not_start_on_the_database_of_another(database_url: str, tmp_path: Path) -> None:
    options = ["--driver", "fake", "--database-url", database_url]
    command = [sys.executable, "-m", "benchyard.cli.main", "serve", "--port", "0", *options]
    with RunningServer(tmp_path / "one", options) as server:
        second = subprocess.run(
            [*command, "--data", str(tmp_path / "two")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert second.returncode == 5
        assert "another server uses this database" in second.stderr
        assert f"process {server.pid}" in second.stderr
        server.kill()
        server.start()


def _ended(connection: Connection) -> None:
    connection.execute(_END_HOLDER)


def _is_held(connection: Connection) -> bool:
    count = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted")
    return bool(connection.execute(count).scalar_one() == 1)


def test_a_lock_that_is_let_go_in_a_moment_is_waited_for(tmp_path: Path) -> None:
    held, wanted = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    fcntl.flock(held, fcntl.LOCK_EX)
    release = threading.Timer(0.2, os.close, [held])
    release.start()
    assert take_lock(wanted)
    release.join()
    os.close(wanted)


def test_a_lock_that_stays_taken_is_refused(tmp_path: Path) -> None:
    held, wanted = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    fcntl.flock(held, fcntl.LOCK_EX)
    assert not take_lock(wanted)
    os.close(held)
    os.close(wanted)
