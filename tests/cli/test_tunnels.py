"""Tunnels, forwarded ports and ssh from the command line, as programs of their own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from benchyard.client import AsyncClient, Client
from benchyard.client.operations import Server
from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp
from tests.api.tunnelled import listening
from tests.cli.conftest import CommandLine

PATIENCE_SECONDS = 60


@pytest.fixture
def port(fake_server: RunningServer, box: str) -> int:
    """The port of a program in the devbox."""
    headers = {"authorization": f"Bearer {fake_server.key}"}
    with httpx.Client(base_url=fake_server.url, headers=headers, timeout=40) as api:
        return listening(DevboxOverHttp(api, box))


def program(server: RunningServer, home: Path, *words: str) -> tuple[list[str], dict[str, str]]:
    """The command line as a program, and its environment."""
    environment = {"BENCHYARD_URL": server.url, "BENCHYARD_API_KEY": server.key, "HOME": str(home)}
    environment |= {"XDG_STATE_HOME": str(home / "state")}
    return [sys.executable, "-m", "benchyard.cli.main", *words], {**os.environ, **environment}


def test_a_tunnel_is_made_shown_and_removed(benchyard: CommandLine, box: str, port: int) -> None:
    told = benchyard.ok("devbox", "tunnel", box, "--port", str(port))
    address = next(word for word in told.split() if "/tunnel/" in word)
    assert httpx.get(f"{address}here", timeout=30).text == "hello from /here"
    shown = json.loads(benchyard.ok("devbox", "tunnel", box, "--port", str(port), "-o", "json"))
    assert shown["address"] == address
    assert "PORT" in benchyard.ok("devbox", "tunnel", box)
    kept = benchyard.ok("devbox", "tunnel", box, "--authenticated", "--port", str(port))
    assert "X-Benchyard-Tunnel-Authorization: Bearer " in kept
    changed = next(word for word in kept.split() if "/tunnel/" in word)
    assert httpx.get(changed, timeout=30).status_code == 401
    assert "no tunnel" in benchyard.ok("devbox", "tunnel", box, "--remove")
    assert httpx.get(changed, timeout=30).status_code == 404
    assert benchyard("devbox", "tunnel", box, "--authenticated", "--open").status == 2


def test_a_forwarded_port_carries_any_bytes(
    fake_server: RunningServer, box: str, port: int, tmp_path: Path
) -> None:
    command, environment = program(fake_server, tmp_path, "devbox", "forward", box, f"0:{port}")
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        address = process.stdout.readline().split()[0]
        assert httpx.get(f"http://{address}/there", timeout=30).text == "hello from /there"
        size = 5_000_000
        assert len(httpx.get(f"http://{address}/large?{size}", timeout=60).content) == size
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 130


@pytest.mark.parametrize("ports", ["x", "80:", ":80", "70000", "1:0", "1:2:3"])
def test_invalid_port_is_refused(benchyard: CommandLine, box: str, ports: str) -> None:
    ended = benchyard("devbox", "forward", box, ports)
    assert ended.status == 2
    assert "must look like" in ended.err


def test_ssh_enters_and_runs_commands(fake_server: RunningServer, box: str, tmp_path: Path) -> None:
    for _ in range(2):
        words = ("devbox", "ssh", box, "--", "cat; exit 3")
        command, environment = program(fake_server, tmp_path, *words)
        done = subprocess.run(
            command,
            env=environment,
            input=b"typed",
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert (done.stdout, done.returncode) == (b"typed", 3), done.stderr
    folder = tmp_path / "state" / "benchyard" / "ssh" / box
    assert (folder / "key").stat().st_mode & 0o777 == 0o600


def test_the_configuration_serves_scp(fake_server: RunningServer, box: str, tmp_path: Path) -> None:
    command, environment = program(fake_server, tmp_path, "devbox", "ssh-config", box, "--host", "mine")
    printed = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=True).stdout
    (tmp_path / "config").write_bytes(printed)
    (tmp_path / "file").write_text("content")
    copy = ["scp", "-q", "-F", str(tmp_path / "config"), str(tmp_path / "file"), "mine:there"]
    done = subprocess.run(copy, env=environment, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    shown = ["ssh", "-F", str(tmp_path / "config"), "mine", "cat there"]
    assert (
        subprocess.run(shown, env=environment, capture_output=True, timeout=60, check=True).stdout
        == b"content"
    )
    again = subprocess.run(
        [*command[:-1], "a b"], env=environment, capture_output=True, timeout=60, check=False
    )
    assert again.returncode == 2


def test_the_client_has_the_same_verbs_on_both_sides(
    client: Client, fake_server: RunningServer, box: str
) -> None:
    made = client.tunnels.enable(box)
    assert client.devboxes.get(box).tunnel == made
    assert client.tunnels.url(made, 80) == f"{fake_server.url}/tunnel/{made.tunnel_key}/80/"
    assert client.ssh.create_key(box).ssh_user == "user"

    async def removed() -> None:
        async with AsyncClient(Server(fake_server.url, fake_server.key)) as other:
            assert await other.tunnels.enable(box) == made
            await other.tunnels.remove(box)

    asyncio.run(removed())
    assert client.devboxes.get(box).tunnel is None
