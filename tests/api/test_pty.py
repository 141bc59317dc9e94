"""Terminals over HTTP and a socket."""

import socket
import uuid
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, create, good, refusal


class Terminals:
    """The terminals of one devbox, reached with its pass."""

    def __init__(self, devbox: DevboxOverHttp, server: RunningServer) -> None:
        self.devbox = devbox
        self.server = server
        tunnel = good(devbox.post("create_pty_tunnel"))
        self.token = tunnel["auth_token"]
        self.host = f"13-{tunnel['tunnel_key']}.tunnel.yard.test"
        self.path = f"/tunnel/{tunnel['tunnel_key']}/13"
        self.headers = {"x-runloop-tunnel-authorization": f"Bearer {self.token}"}

    def connect(self, name: str, **query: Any) -> dict[str, Any]:
        return good(httpx.get(f"{self.server.url}/pty/{name}", params=query, headers=self.headers))

    def control(self, name: str, **body: Any) -> httpx.Response:
        return httpx.post(f"{self.server.url}/pty/{name}/control", json=body, headers=self.headers)

    def attach(self, name: str) -> ClientConnection:
        url = self.server.url.replace("http", "ws", 1) + self.connect(name)["connect_url"]
        return connect(url, proxy=None)

    def attach_by_host(self, target: str, **options: Any) -> ClientConnection:
        """A socket to the host name of the terminals, as their tunnel's key makes it."""
        address = httpx.URL(self.server.url)
        connection = socket.create_connection((address.host, address.port or 80), timeout=30)
        opened: ClientConnection = connect(
            f"ws://{self.host}{target}", sock=connection, proxy=None, **options
        )
        return opened


@pytest.fixture
def terminals(devbox: DevboxOverHttp, fake_server: RunningServer) -> Terminals:
    return Terminals(devbox, fake_server)


@pytest.fixture
def name() -> str:
    return f"session_{uuid.uuid4().hex}"


def until(socket: ClientConnection, text: bytes) -> bytes:
    """What a terminal prints, up to and with this."""
    seen = b""
    while text not in seen:
        frame = socket.recv(timeout=20)
        assert isinstance(frame, bytes)
        seen += frame
    return seen


def test_a_session_is_made_once_and_found_again(terminals: Terminals, name: str) -> None:
    first = terminals.connect(name, cols=100, rows=30)
    assert (first["created"], first["attached"], first["cols"], first["rows"]) == (True, False, 100, 30)
    assert first["connect_url"].startswith(f"/pty/{name}/ws?")
    assert first["idle_ttl_seconds"] > 0
    second = terminals.connect(name)
    assert (second["created"], second["cols"], second["rows"]) == (False, 100, 30)


@pytest.mark.parametrize("query", [{}, {"cols": 100}, {"cols": 0, "rows": 30}, {"cols": 100, "rows": 1001}])
def test_a_size_that_is_none_is_ignored(terminals: Terminals, name: str, query: dict[str, int]) -> None:
    view = terminals.connect(name, **query)
    assert (view["cols"], view["rows"]) == (80, 24)


def test_typed_input_is_echoed(terminals: Terminals, name: str) -> None:
    with terminals.attach(name) as socket:
        socket.send(b"echo $((40 + 2))-bytes\n")
        until(socket, b"42-bytes")
        socket.send("echo $((40 + 3))-text\n")
        until(socket, b"43-text")


def test_the_terminal_has_the_size_it_was_given(terminals: Terminals, name: str) -> None:
    terminals.connect(name, cols=90, rows=33)
    with terminals.attach(name) as socket:
        socket.send(b"stty size\n")
        until(socket, b"33 90")
        assert good(terminals.control(name, action="resize", cols=120, rows=40))["status"] == "resized"
        socket.send(b"stty size\n")
        until(socket, b"40 120")


def test_reattached_client_finds_the_shell_and_its_output(terminals: Terminals, name: str) -> None:
    with terminals.attach(name) as socket:
        socket.send(b"COLOUR=green; echo be''fore\n")
        until(socket, b"before")
    with terminals.attach(name) as socket:
        until(socket, b"before")
        socket.send(b"echo $COLOUR-again\n")
        until(socket, b"green-again")


def test_a_second_client_is_refused_at_the_upgrade(terminals: Terminals, name: str) -> None:
    with terminals.attach(name):
        assert terminals.connect(name)["attached"] is True
        with pytest.raises(InvalidStatus) as refused:
            terminals.attach(name)
        assert refused.value.response.status_code == 409
    with terminals.attach(name) as socket:
        socket.send(b"echo o''k\n")
        until(socket, b"ok")


def test_the_end_of_the_shell_closes_the_socket_with_its_status(terminals: Terminals, name: str) -> None:
    with terminals.attach(name) as socket:
        socket.send(b"echo las''t; exit 7\n")
        until(socket, b"last")
        with pytest.raises(ConnectionClosed):
            until(socket, b"more than there is")
        assert (socket.close_code, socket.close_reason) == (4000, "exit 7")
    assert terminals.connect(name)["created"] is True


def test_a_signal_reaches_the_foreground(terminals: Terminals, name: str) -> None:
    with terminals.attach(name) as socket:
        script = "trap 'echo got''cha; exit' USR1; echo rea''dy; while :; do sleep 0.05; done"
        socket.send(f'bash -c "{script}"\n')
        until(socket, b"ready")
        assert good(terminals.control(name, action="signal", signal="SIGUSR1"))["status"] == "signaled"
        until(socket, b"gotcha")


def test_a_closed_session_begins_anew(terminals: Terminals, name: str) -> None:
    terminals.connect(name)
    assert good(terminals.control(name, action="close"))["status"] == "closed"
    assert refusal(terminals.control(name, action="close"), 404)
    assert terminals.connect(name)["created"] is True


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"action": "resize"}, "cols"),
        ({"action": "resize", "cols": 0, "rows": 5}, "cols"),
        ({"action": "resize", "cols": 5, "rows": 1001}, "cols"),
        ({"action": "signal"}, "signal"),
        ({"action": "signal", "signal": "SIGNOTHING"}, "SIGNOTHING"),
        ({"action": "signal", "signal": "SIG_DFL"}, "SIG_DFL"),
        ({"action": "dance"}, "action"),
        ({}, "action"),
    ],
)
def test_a_control_that_makes_no_sense_is_400(
    terminals: Terminals, name: str, body: dict[str, Any], says: str
) -> None:
    terminals.connect(name)
    assert says in refusal(terminals.control(name, **body), 400)


@pytest.mark.parametrize("wrong", ["a b", "a.b", "é", "x" * 257])
def test_a_name_that_is_none_is_400(terminals: Terminals, wrong: str) -> None:
    answer = httpx.get(f"{terminals.server.url}/pty/{wrong}", headers=terminals.headers)
    assert "name" in refusal(answer, 400)


def test_without_a_pass_or_a_key_nobody_comes_in(
    terminals: Terminals, name: str, stranger: httpx.Client
) -> None:
    terminals.connect(name)
    query = {"devbox_id": terminals.devbox.id}
    assert refusal(stranger.get(f"/pty/{name}", params=query), 401)
    assert refusal(stranger.post(f"/pty/{name}/control", params=query, json={"action": "close"}), 401)
    for forged in ("x", "a.b", terminals.headers["x-runloop-tunnel-authorization"][7:-2] + "xx"):
        headers = {"x-runloop-tunnel-authorization": f"Bearer {forged}"}
        assert refusal(stranger.get(f"/pty/{name}", headers=headers), 401)
    socket_url = terminals.server.url.replace("http", "ws", 1) + f"/pty/{name}/ws"
    for query_text in ("", f"?devbox_id={terminals.devbox.id}", "?ticket=abc.def"):
        with pytest.raises(InvalidStatus) as refused:
            connect(socket_url + query_text, proxy=None)
        assert refused.value.response.status_code == 401


def test_a_ticket_is_good_for_its_session_only(terminals: Terminals, name: str) -> None:
    ticket = terminals.connect(name)["connect_url"].partition("?")[2]
    terminals.connect(f"{name}-other")
    with pytest.raises(InvalidStatus) as refused:
        connect(f"{terminals.server.url.replace('http', 'ws', 1)}/pty/{name}-other/ws?{ticket}", proxy=None)
    assert refused.value.response.status_code == 401


def test_a_key_and_a_devbox_id_open_a_terminal_too(
    api: httpx.Client, terminals: Terminals, name: str
) -> None:
    view = good(api.get(f"/pty/{name}", params={"devbox_id": terminals.devbox.id}))
    assert view["created"] is True
    assert "devbox" in refusal(api.get(f"/pty/{name}"), 400)


def test_a_resumed_devbox_has_fresh_terminals(
    api: httpx.Client, fake_server: RunningServer, name: str
) -> None:
    devbox = create(api)
    terminals = Terminals(devbox, fake_server)
    terminals.connect(name)
    devbox.post("suspend")
    devbox.reaches("suspended")
    answer = httpx.get(f"{fake_server.url}/pty/{name}", headers=terminals.headers)
    assert "resume" in refusal(answer, 409)
    devbox.post("resume")
    devbox.reaches("running")
    assert terminals.connect(name)["created"] is True
    devbox.post("shutdown")


class TestByTheTunnelsKey:
    """The ways of the original's command line and of its clients to a terminal."""

    def test_bootstrap_and_control_at_the_host_name_with_either_header(
        self, terminals: Terminals, name: str, stranger: httpx.Client
    ) -> None:
        bearer = f"Bearer {terminals.token}"
        given = ({"authorization": bearer}, terminals.headers, {"x-benchyard-tunnel-authorization": bearer})
        for headers in given:
            at_host = {"host": terminals.host, **headers}
            view = good(stranger.get(f"/pty/{name}", params={"cols": 100, "rows": 30}, headers=at_host))
            assert (view["session_name"], view["cols"], view["rows"]) == (name, 100, 30)
            size = {"action": "resize", "cols": 90, "rows": 20}
            told = good(stranger.post(f"/pty/{name}/control", json=size, headers=at_host))
            assert told["status"] == "resized"
            # The same token, by path and at the API's own address.
            assert good(stranger.get(f"{terminals.path}/pty/{name}", headers=headers))["cols"] == 90
            assert good(stranger.get(f"/pty/{name}", headers=headers))["cols"] == 90
        query = {"token": terminals.token}
        assert (
            good(stranger.get(f"/pty/{name}", params=query, headers={"host": terminals.host}))["cols"] == 90
        )

    def test_a_socket_opens_by_header_query_subprotocol_and_ticket(
        self, terminals: Terminals, name: str
    ) -> None:
        bearer = {"authorization": f"Bearer {terminals.token}"}
        ticket = terminals.connect(name)["connect_url"]
        opened: list[tuple[str, dict[str, Any]]] = [
            (ticket, {}),
            (ticket, {"subprotocols": [terminals.token]}),
            (f"{ticket}&token={terminals.token}", {"additional_headers": bearer}),
            (f"/pty/{name}/ws", {"additional_headers": bearer}),
            (f"/pty/{name}/attach?cols=70&rows=20", {"subprotocols": [terminals.token]}),
            (f"/pty/{name}/attach?token={terminals.token}", {}),
        ]
        for number, (target, options) in enumerate(opened):
            with terminals.attach_by_host(target, **options) as connection:
                # A client that offers a protocol gives up on a server that does not take it.
                assert connection.subprotocol == next(iter(options.get("subprotocols", [])), None)
                connection.send(f"echo $((40 + 2))-{number}\r")
                until(connection, f"42-{number}".encode())

    def test_attaching_makes_the_session_with_its_size(self, terminals: Terminals, name: str) -> None:
        target = f"/pty/{name}/attach?cols=70&rows=20"
        with terminals.attach_by_host(target, subprotocols=[terminals.token]) as connection:
            connection.send(b"stty size; exit\n")
            until(connection, b"20 70")
            with pytest.raises(ConnectionClosed):
                until(connection, b"more than there is")
            assert (connection.close_code, connection.close_reason) == (4000, "exit 0")

    def test_the_key_and_the_token_belong_together(
        self, api: httpx.Client, terminals: Terminals, name: str, stranger: httpx.Client
    ) -> None:
        at_host = {"host": terminals.host}
        assert refusal(stranger.get(f"/pty/{name}", headers=at_host), 401)
        forged = {"authorization": f"Bearer {terminals.token[:-2]}xx", **at_host}
        assert refusal(stranger.get(f"/pty/{name}", headers=forged), 401)
        good_token = {"authorization": f"Bearer {terminals.token}"}
        other = {"host": f"13-pty{'0' * 32}.tunnel.yard.test", **good_token}
        assert "create_pty_tunnel" in refusal(stranger.get(f"/pty/{name}", headers=other), 404)
        with pytest.raises(InvalidStatus) as refused:
            terminals.attach_by_host(f"/pty/{name}/attach")
        assert refused.value.response.status_code == 401

    def test_nothing_else_of_the_api_is_behind_the_key(self, api: httpx.Client, terminals: Terminals) -> None:
        for target in ("/v1/devboxes", "/", "/healthz", "/pty/../v1/devboxes", "/pty/%2e%2e/v1/devboxes"):
            assert api.get(target, headers={"host": terminals.host}).status_code == 404
        assert api.get(f"{terminals.path}/v1/devboxes").status_code == 404
