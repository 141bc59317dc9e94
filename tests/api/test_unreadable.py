"""A stored record that cannot be read: lists go on, it is told of, and what belongs to it is kept."""

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx

from benchyard.testing.server import RunningServer
from tests.api.devbox import create, good, refusal


def client_of(server: RunningServer) -> httpx.Client:
    headers = {"authorization": f"Bearer {server.key}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=40)


def rewrite(server: RunningServer, table: str, id: str, body: str) -> str:
    """Put other text into a record's row; returns what was there."""
    with closing(sqlite3.connect(server.data / "benchyard.db", timeout=20)) as database, database:
        (before,) = database.execute(f"SELECT body FROM {table} WHERE id = ?", (id,)).fetchone()
        database.execute(f"UPDATE {table} SET body = ? WHERE id = ?", (body, id))
    return str(before)


def test_a_list_goes_on_without_it(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", ["--driver", "fake"]) as server, client_of(server) as api:
        request = {"name": "n", "content_type": "text"}
        made = [good(api.post("/v1/objects", json=request))["id"] for _ in range(3)]
        rewrite(server, "objects", made[1], '{"name": "half of')
        listed = good(api.get("/v1/objects"))
        assert [each["id"] for each in listed["objects"]] == [made[2], made[0]]
        answer = api.get(f"/v1/objects/{made[1]}")
        assert made[1] in refusal(answer, 500)
        assert answer.json()["code"] == "unreadable"
        assert answer.headers["x-should-retry"] == "false"
        assert made[1] in server.log


def test_devbox_and_objects_return_after_a_repair(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, client_of(server) as api:
        devbox = create(api)
        devbox.run("echo kept > note")
        thing = good(api.post("/v1/objects", json={"name": "n", "content_type": "text"}))
        assert httpx.put(thing["upload_url"], content=b"kept too").status_code == 200
        good(api.post(f"/v1/objects/{thing['id']}/complete"))
        before = {
            (table, id): rewrite(server, table, id, "{}")
            for table, id in (("devboxes", devbox.id), ("objects", thing["id"]))
        }
        server.restart()
        assert good(api.get("/v1/devboxes"))["devboxes"] == []
        refusal(api.get(f"/v1/devboxes/{devbox.id}"), 500)
        for (table, id), body in before.items():
            rewrite(server, table, id, body)
        server.restart()
        assert devbox.run("cat note")["stdout"] == "kept\n"
        url = good(api.get(f"/v1/objects/{thing['id']}/download"))["download_url"]
        assert httpx.get(url).content == b"kept too"
