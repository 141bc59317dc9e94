"""Tunnels and ssh keys with the official client, both kinds of it."""

import httpx
import pytest
from runloop_api_client import BadRequestError, NotFoundError, Runloop, RunloopSDK
from runloop_api_client.sdk import Devbox

from benchyard.testing.server import RunningServer


def served(server: RunningServer, key: str, port: int, headers: dict[str, str]) -> int:
    return httpx.get(f"{server.url}/tunnel/{key}/{port}/", headers=headers, timeout=30).status_code


def test_enabling_and_removing(client: Runloop, box: str) -> None:
    made = client.devboxes.enable_tunnel(
        box, auth_mode="authenticated", http_keep_alive=False, wake_on_http=True
    )
    assert (made.auth_mode, made.http_keep_alive, made.wake_on_http) == ("authenticated", False, True)
    assert made.auth_token
    assert client.devboxes.retrieve(box).tunnel == made
    assert client.devboxes.enable_tunnel(box) == made
    assert client.devboxes.remove_tunnel(box) is not None
    assert client.devboxes.retrieve(box).tunnel is None
    with pytest.raises(NotFoundError):
        client.devboxes.enable_tunnel("dbx_none")


def test_created_with_a_tunnel_and_reached_through_it(client: Runloop, server: RunningServer) -> None:
    made = client.devboxes.create_and_await_running(tunnel={"auth_mode": "authenticated"})
    tunnel = made.tunnel
    assert tunnel is not None
    program = "nohup python3 -m http.server 8765 --bind 127.0.0.1 >/dev/null 2>&1 & "
    probe = 'import socket; socket.create_connection(("127.0.0.1", 8765))'
    wait = f"until python3 -c '{probe}'; do sleep 0.1; done"
    result = client.devboxes.execute_and_await_completion(made.id, command=program + wait)
    assert result.exit_status == 0
    token = {"X-Runloop-Tunnel-Authorization": f"Bearer {tunnel.auth_token}"}
    assert served(server, tunnel.tunnel_key, 8765, token) == 200
    assert served(server, tunnel.tunnel_key, 8765, {}) == 401
    by_name = {"host": f"8765-{tunnel.tunnel_key}.tunnel.example.test", **token}
    assert httpx.get(f"{server.url}/", headers=by_name, timeout=30).status_code == 200
    client.devboxes.shutdown(made.id)
    assert served(server, tunnel.tunnel_key, 8765, token) == 404
    with pytest.raises(BadRequestError):
        client.devboxes.enable_tunnel(made.id)


def test_the_address_that_the_sdk_computes(sdk: RunloopSDK, devbox: Devbox) -> None:
    assert devbox.get_tunnel_url(80) is None
    made = devbox.net.enable_tunnel(auth_mode="open")
    assert devbox.get_tunnel_url(80) == f"https://80-{made.tunnel_key}.tunnel.127.0.0.1"
    assert devbox.get_tunnel() == made
    devbox.net.remove_tunnel()
    assert devbox.get_tunnel() is None


def test_an_ssh_key(devbox: Devbox) -> None:
    first, second = devbox.net.create_ssh_key(), devbox.net.create_ssh_key()
    assert first.id == devbox.id
    assert first.ssh_user == "user"
    assert first.ssh_private_key.startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    assert first.ssh_private_key != second.ssh_private_key
    assert first.url == second.url
