"""Whatever clients send, and whatever goes wrong with it: no secret of it is in the server's log."""

import base64
import json
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import connect

from benchyard.testing.server import RunningServer
from tests.api.devbox import create, eventually, good

FAKE = ("--driver", "fake")


class Secrets:
    """Makes values that must not be seen again, and remembers them."""

    def __init__(self) -> None:
        self._made: list[str] = []

    def new(self) -> str:
        value = f"s3cret{secrets.token_hex(12)}"
        return self.also(value)

    def also(self, value: str) -> str:
        assert len(value) > 12
        self._made.append(value)
        return value

    def found_in(self, text: str) -> list[str]:
        forms = {
            form: value
            for value in self._made
            for form in (value, base64.b64encode(value.encode()).decode(), quote(value, safe=""))
        }
        return sorted({value for form, value in forms.items() if form in text})


class Watched:
    """A server of its own, a client, and what must not be in the log."""

    def __init__(self, server: RunningServer, api: httpx.Client) -> None:
        self.server = server
        self.api = api
        self.secret = Secrets()
        self.secret.also(server.key)

    def seen(self) -> list[str]:
        """The secrets in the log, once everything so far has been written to it."""
        mark = f"mark-{secrets.token_hex(4)}"
        self.api.get("/v1/accounts/me", headers={"x-request-id": mark})
        eventually(lambda: mark in self.server.log, "the log to be written")
        return self.secret.found_in(self.server.log)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    with RunningServer(tmp_path / "data", FAKE) as server:
        headers = {"authorization": f"Bearer {server.key}"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
            yield Watched(server, client)


def send_bodies(watched: Watched) -> None:
    """Secrets in every place of a body, in good requests and in bad ones."""
    api, secret = watched.api, watched.secret
    good(api.post("/v1/secrets", json={"name": "TOKEN", "value": secret.new()}))
    good(api.post("/v1/secrets/TOKEN", json={"value": secret.new()}))
    assert api.post("/v1/secrets", json={"name": "TOKEN", "value": secret.new()}).status_code == 400
    assert api.post("/v1/secrets", json={"name": {"a": secret.new()}, "value": 7}).status_code == 400
    assert api.post("/v1/secrets", content=f'{{"value": "{secret.new()}').status_code == 400
    assert api.post(f"/v1/{secret.new()}", json={"value": secret.new()}).status_code == 404
    secret.also(good(api.post("/v1/apikeys", json={"name": "other"}))["key_secret"])


def send_to_a_devbox(watched: Watched) -> None:
    """Secrets in a devbox's environment, commands, input and files."""
    secret = watched.secret
    devbox = create(
        watched.api,
        environment_variables={"PASSWORD": secret.new()},
        secrets={"TOKEN": "TOKEN"},
        launch_parameters={"launch_commands": [f"echo {secret.new()}"]},
    )
    devbox.run(f"echo {secret.new()}; echo {secret.new()} >&2; exit 3")
    devbox.run(f"export A={secret.new()}", shell_name="named")
    execution = devbox.start("cat", attach_stdin=True)
    devbox.post(f"executions/{execution}/send_std_in", {"text": secret.new()})
    devbox.post(f"executions/{execution}/kill")
    devbox.post("write_file_contents", {"file_path": devbox.path("file"), "contents": secret.new()})
    devbox.post("read_file_contents", {"file_path": f"/{secret.new()}"})
    broken = {"launch_parameters": {"launch_commands": [f"echo {secret.new()}; exit 1"]}}
    failed = watched.api.post("/v1/devboxes/create_and_await_running", json=broken).json()
    assert failed["status"] == "failure"
    devbox.post("shutdown")


def send_headers(watched: Watched) -> None:
    """Secrets in headers and addresses, of those who have a key and of those who have not."""
    secret = watched.secret
    for name in ("authorization", "cookie", "x-api-key", "proxy-authorization"):
        httpx.get(f"{watched.server.url}/v1/secrets", headers={name: f"Bearer {secret.new()}"})
        watched.api.get("/v1/secrets", headers={name: f"Basic {secret.new()}"})
    watched.api.get("/v1/secrets", params={"search": secret.new(), secret.new(): "x"})
    watched.api.get(f"/v1/secrets/{secret.new()}")
    watched.api.request(f"X{secret.new()}".upper(), "/v1/secrets")
    watched.api.get("/v1/secrets", headers={"x-big": secret.new() * 5000})


def send_links(watched: Watched) -> None:
    """Signed links and tickets, which open by themselves."""
    api, secret = watched.api, watched.secret
    made = good(api.post("/v1/objects", json={"name": "o", "content_type": "text"}))
    upload = httpx.URL(made["upload_url"])
    secret.also(upload.params["signature"])
    assert httpx.put(upload, content=secret.new()).status_code == 200
    good(api.post(f"/v1/objects/{made['id']}/complete"))
    link = httpx.URL(good(api.get(f"/v1/objects/{made['id']}/download"))["download_url"])
    secret.also(link.params["signature"])
    assert httpx.get(link).status_code == 200
    assert httpx.get(link.copy_set_param("signature", secret.new())).status_code == 403
    devbox = create(api)
    ticket = good(api.get("/pty/one", params={"devbox_id": devbox.id}))["connect_url"]
    secret.also(httpx.URL(ticket).params["ticket"])
    sockets = watched.server.url.replace("http", "ws", 1)
    with connect(sockets + ticket, proxy=None) as terminal:
        terminal.send(f"echo {secret.new()}; exit\n".encode())
        assert terminal.recv()
        # A shell that has ended is told by a code of its own.
        with pytest.raises(ConnectionClosedError, match="4000"):
            list(terminal)
    with pytest.raises(InvalidStatus):
        connect(f"{sockets}/pty/one/ws?ticket={secret.new()}", proxy=None)
    devbox.post("shutdown")


def test_secrets_that_clients_send_are_not_logged(watched: Watched) -> None:
    for send in (send_bodies, send_to_a_devbox, send_headers, send_links):
        send(watched)
        assert watched.seen() == [], send.__name__
    lines = [json.loads(line) for line in watched.server.log.splitlines()]
    assert len([line for line in lines if line["message"] == "request"]) > 30


def test_a_database_that_breaks_does_not_tell_what_it_was_to_keep(watched: Watched) -> None:
    with sqlite3.connect(watched.server.data / "benchyard.db") as database:
        for verb, table in (("UPDATE", "devboxes"), ("INSERT", "secrets")):
            database.execute(
                f"CREATE TRIGGER no_{table} BEFORE {verb} ON {table} BEGIN SELECT RAISE(FAIL, 'broken'); END"
            )
    secret = watched.secret
    body = {"environment_variables": {"PASSWORD": secret.new()}, "name": secret.new()}
    good(watched.api.post("/v1/devboxes", json=body))
    eventually(lambda: "broken" in watched.server.log, "the failure to be logged")
    assert watched.api.post("/v1/secrets", json={"name": "T", "value": secret.new()}).status_code >= 400
    assert watched.seen() == []
    with sqlite3.connect(watched.server.data / "benchyard.db") as database:
        database.execute("DROP TRIGGER no_devboxes")
