"""Terminals: the official client opens them, a socket carries their bytes."""

import uuid
from typing import Any

import pytest
from runloop_api_client import AuthenticationError, BadRequestError, NotFoundError, Runloop
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from benchyard.testing.server import RunningServer


class Terminal:
    """One terminal session of a devbox."""

    def __init__(self, client: Runloop, server: RunningServer, box: str) -> None:
        self.name = f"session-{uuid.uuid4().hex}"
        self._client = client
        self._server = server
        tunnel = client.devboxes.create_pty_tunnel(box)
        assert tunnel.tunnel_key
        self._headers = {"X-Runloop-Tunnel-Authorization": f"Bearer {tunnel.auth_token}"}

    def connect(self, **size: Any) -> Any:
        return self._client.pty.connect(self.name, extra_headers=self._headers, **size)

    def control(self, **fields: Any) -> str | None:
        return self._client.pty.control(self.name, extra_headers=self._headers, **fields).status

    def attach(self) -> ClientConnection:
        path = self.connect().connect_url
        return connect(self._server.url.replace("http", "ws", 1) + path, proxy=None)


@pytest.fixture
def terminal(client: Runloop, server: RunningServer, box: str) -> Terminal:
    return Terminal(client, server, box)


def until(socket: ClientConnection, text: bytes) -> bytes:
    """What a terminal prints, up to and with this."""
    seen = b""
    while text not in seen:
        frame = socket.recv(timeout=20)
        assert isinstance(frame, bytes)
        seen += frame
    return seen


def test_a_session_is_made_once_and_found_again(terminal: Terminal) -> None:
    first = terminal.connect(cols=100, rows=30)
    assert (first.created, first.attached, first.cols, first.rows) == (True, False, 100, 30)
    assert (first.session_name, first.protocol_version) == (terminal.name, "1")
    assert first.idle_ttl_seconds > 0
    again = terminal.connect()
    assert (again.created, again.cols, again.rows) == (False, 100, 30)


def test_a_terminal_is_a_login_shell_of_the_user(terminal: Terminal) -> None:
    terminal.connect(cols=90, rows=33)
    with terminal.attach() as socket:
        socket.send(b"echo $((40 + 2))-$(id -un)-$PWD; tty; stty size\n")
        seen = until(socket, b"33 90")
        assert b"42-user-/home/user" in seen
        assert b"/dev/pts/" in seen
        assert terminal.control(action="resize", cols=120, rows=40) == "resized"
        socket.send(b"stty size\n")
        until(socket, b"40 120")
        assert terminal.connect().attached is True


def test_keys_and_signals_reach_the_foreground(terminal: Terminal) -> None:
    with terminal.attach() as socket:
        socket.send(b"echo slee''ping; sleep 1000\n")
        until(socket, b"sleeping")
        socket.send(b"\x03")
        socket.send(b"echo inter''rupted\n")
        until(socket, b"interrupted")
        script = "trap 'echo got''cha; exit' USR1; echo rea''dy; while :; do sleep 0.05; done"
        socket.send(f'bash -c "{script}"\n'.encode())
        until(socket, b"ready")
        assert terminal.control(action="signal", signal="SIGUSR1") == "signaled"
        until(socket, b"gotcha")


def test_reattached_client_finds_the_shell(terminal: Terminal) -> None:
    with terminal.attach() as socket:
        socket.send(b"COLOUR=green; echo be''fore\n")
        until(socket, b"before")
        with pytest.raises(InvalidStatus) as refused:
            terminal.attach()
        assert refused.value.response.status_code == 409
    with terminal.attach() as socket:
        socket.send(b"echo $COLOUR-again\n")
        until(socket, b"green-again")
        socket.send(b"exit 7\n")
        with pytest.raises(ConnectionClosed):
            until(socket, b"more than there is")
        assert (socket.close_code, socket.close_reason) == (4000, "exit 7")


def test_a_closed_session_begins_anew(terminal: Terminal) -> None:
    terminal.connect()
    assert terminal.control(action="close") == "closed"
    with pytest.raises(NotFoundError):
        terminal.control(action="close")
    assert terminal.connect().created is True


def test_invalid_control_message_is_refused(terminal: Terminal, client: Runloop) -> None:
    terminal.connect()
    with pytest.raises(BadRequestError, match="cols"):
        terminal.control(action="resize", cols=0, rows=5)
    with pytest.raises(BadRequestError, match="SIGNOTHING"):
        terminal.control(action="signal", signal="SIGNOTHING")
    with pytest.raises(BadRequestError, match="create_pty_tunnel"):
        client.pty.connect(terminal.name)
    with pytest.raises(AuthenticationError):
        client.pty.connect(terminal.name, extra_headers={"X-Runloop-Tunnel-Authorization": "Bearer x.y"})
