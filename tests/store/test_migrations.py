"""Databases of earlier versions: those of the first release open with what is in them, others say why not.

`first_release/` has the schema as the nine revisions before it made it, and records of a server of that time.
"""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url

from benchyard.errors import StoreError
from benchyard.models.base import Record
from benchyard.models.pages import Query
from benchyard.store import migrations
from benchyard.store.database import Store
from benchyard.store.postgres import PostgresConnections
from benchyard.store.sqlite import SqliteConnections
from benchyard.store.tables import TABLES, metadata
from benchyard.store.trial_facts import TrialFactTable
from benchyard.testing.server import RunningServer

DUMPS = Path(__file__).parent / "first_release"
API_KEY = "by_d1QocKfbFC7-PuqjTjQjCnlthPW_6Id7a7RynjcCNfU"
SECRET_KEY = "2NXSKZ28rP84it6hr3tCp2cSv5xdU3BjycMX9CAo1MY="
OBJECT = "obj_JR7UWP0VUaD4RIOYnNedU/817d6dd163c1b23e"
VERSION = text("SELECT version_num FROM alembic_version")
LATER = f"{int(migrations.newest()) + 1:04}"
NEXT = f"""
import sqlalchemy as sa
from alembic import op

revision, down_revision = "{LATER}", "{migrations.newest()}"


def upgrade() -> None:
    op.create_table("later", sa.Column("id", sa.Text))
"""


def statements(*names: str) -> list[str]:
    whole = "".join((DUMPS / f"{name}.sql").read_text() for name in names)
    return [each for each in whole.split(";\n") if each]


@pytest.fixture
def old_url(database_url: str) -> str:
    """The URL of a database that a server of the first release left."""
    url = make_url(database_url)

    def restore(connection: Connection) -> None:
        for statement in statements(url.drivername.replace("postgresql", "postgres"), "records"):
            connection.exec_driver_sql(statement)

    async def main() -> None:
        is_file = url.drivername == "sqlite"
        connections = SqliteConnections(url) if is_file else PostgresConnections(url)
        await connections.write(restore)
        await connections.close()

    asyncio.run(main())
    return database_url


def differences(connection: Connection) -> list[object]:
    return list(compare_metadata(MigrationContext.configure(connection), metadata))


def tables_of_sqlite(connection: Connection) -> set[str]:
    if connection.dialect.name != "sqlite":
        return set()
    made = connection.execute(text("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))
    return {" ".join(scalar.split()) for scalar in made.scalars()}


def test_a_database_of_the_first_release_has_its_records_and_the_schema_of_a_new_one(
    old_url: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with Store(old_url) as store, Store(f"sqlite:///{tmp_path / 'new.db'}") as new:
            assert await store.read(differences) == []
            if old_url.startswith("sqlite"):
                assert await store.read(tables_of_sqlite) == await new.read(tables_of_sqlite)
            (old,) = await store.collection("devboxes", Record).all({"name": "old"})
            again = Record(id="dbx_new", create_time_ms=old.create_time_ms)
            await store.collection("devboxes", Record).insert(again)
            kept = await store.collection("devboxes", Record).all({})
            assert {each.id for each in kept} == {old.id, "dbx_new"}
            (scenario,) = await store.collection("scenarios", Record).all({"metadata.kind": "old"})
            assert scenario.id.startswith("scn_")

    asyncio.run(main())


def test_a_data_folder_of_the_first_release_is_served(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "objects" / OBJECT).parent.mkdir(parents=True)
    (data / "objects" / OBJECT).write_bytes(b"contents")
    (data / "secret-key").write_text(SECRET_KEY)
    (data / "api-key").write_text(API_KEY)
    with sqlite3.connect(data / "benchyard.db") as connection:
        connection.executescript(";\n".join(statements("sqlite", "records")))
    connection.close()
    with (
        RunningServer(data, ["--driver", "fake"]) as server,
        httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {API_KEY}"}, timeout=60) as api,
    ):
        (devbox,) = api.get("/v1/devboxes").json()["devboxes"]
        assert (devbox["name"], devbox["status"]) == ("old", "shutdown")
        (benchmark,) = api.get("/v1/benchmarks").json()["benchmarks"]
        (scenario,) = api.get("/v1/scenarios").json()["scenarios"]
        assert benchmark["scenario_ids"] == [scenario["id"]]
        link = api.get(f"/v1/objects/{OBJECT.partition('/')[0]}/download").json()["download_url"]
        assert httpx.get(link).content == b"contents"
        asked = {"name": "new", "secrets": {"TOKEN": "TOKEN"}}
        assert api.post("/v1/devboxes/create_and_await_running", json=asked, timeout=60).status_code == 200


def test_later_revisions_are_run_once_on_a_database_of_the_first_release(
    old_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "migrations"
    shutil.copytree(migrations.FOLDER / "versions", folder / "versions")
    (folder / "versions" / f"r{LATER}_later.py").write_text(NEXT)
    monkeypatch.setattr(migrations, "FOLDER", folder)

    async def main() -> None:
        for _ in range(2):
            async with Store(old_url) as store:
                assert await store.read(lambda found: found.scalar(text("SELECT count(*) FROM later"))) == 0
                assert await store.read(lambda found: found.scalar(VERSION)) == LATER
                assert len(await store.collection("scenarios", Record).all({})) == 1

    asyncio.run(main())


JOB = {
    "source": {"type": "benchmark", "benchmark_id": "bmd_a"},
    "spec": {"agent_configs": [{"name": "nop"}, {"name": "coder", "version": "2", "model_name": "m"}]},
}
TRIALS: Mapping[str, Mapping[str, object]] = {
    "trl_1": {"agent": 1, "scenario_id": "scn_a", "state": "completed", "score": 1.0},
    "trl_2": {"agent": 0, "scenario_id": "scn_a", "state": "failed", "failure": {"kind": "agent"}},
    "trl_3": {"agent": 0, "scenario_id": "scn_b", "state": "running"},
    "trl_4": {"agent": 7},
}


def test_trials_of_the_first_release_are_found_over_all_jobs(old_url: str) -> None:
    def add(connection: Connection) -> None:
        for table, id, parent, body in [
            ("benchmark_jobs", "bmj_1", None, json.dumps(JOB)),
            *(("trials", id, "bmj_1", json.dumps(body)) for id, body in TRIALS.items()),
            ("trials", "trl_5", "bmj_1", "{"),
        ]:
            row = {"id": id, "create_time_ms": 1, "parent": parent, "body": body}
            connection.execute(TABLES[table].insert(), row)

    async def main() -> None:
        url = make_url(old_url)
        connections = (SqliteConnections if url.drivername == "sqlite" else PostgresConnections)(url)
        await connections.write(add)
        await connections.close()
        async with Store(old_url) as store:
            facts = TrialFactTable(store)
            for where, ids in [
                ({}, ["trl_3", "trl_2", "trl_1"]),
                ({"agent": "coder"}, ["trl_1"]),
                ({"agent": "coder@2:m", "outcome": "passed", "benchmark_id": "bmd_a"}, ["trl_1"]),
                ({"failure_kind": "agent", "outcome": "crashed"}, ["trl_2"]),
            ]:
                assert (await facts.page(Query(where=where))).ids == ids

    asyncio.run(main())


@pytest.mark.parametrize(("revision", "says"), [("0008", "before the first release"), ("9999", "newer")])
def test_a_database_of_another_version_is_refused_and_stays_as_it_was(
    old_url: str, revision: str, says: str
) -> None:
    async def main() -> None:
        async with Store(old_url) as store:
            other = text(f"UPDATE alembic_version SET version_num = '{revision}'")
            await store.write(lambda connection: connection.execute(other))
        for _ in range(2):
            with pytest.raises(StoreError, match=says):
                async with Store(old_url):
                    pass

    asyncio.run(main())


def test_the_names_of_its_files_name_the_newest_schema() -> None:
    assert ScriptDirectory(str(migrations.FOLDER)).get_heads() == [migrations.newest()]
