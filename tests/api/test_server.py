"""The server starts once per folder, stops when told, and keeps its files to itself."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx
import pytest

from benchyard.errors import ServerUnreachable
from benchyard.testing.server import RunningServer
from tests.api.devbox import eventually
from tests.postgres import running_postgres

FAKE = ("--driver", "fake")
# A busy machine answers late, and that is not what is tested here.
get = partial(httpx.get, timeout=60)
post = partial(httpx.post, timeout=60)
put = partial(httpx.put, timeout=60)


def test_the_data_folder_is_closed_to_others(fake_server: RunningServer) -> None:
    assert stat.S_IMODE(fake_server.data.stat().st_mode) == 0o700
    for name in ("api-key", "secret-key", "server.json"):
        assert stat.S_IMODE((fake_server.data / name).stat().st_mode) == 0o600


def test_a_running_server_says_where_it_is(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", FAKE) as server:
        note = json.loads((server.data / "server.json").read_text())
        assert note == {"url": server.url, "pid": server.pid}
        assert get(f"{note['url']}/healthz").json()["status"] == "ok"
        assert server.stop() == 0
    assert not (server.data / "server.json").exists()


def test_a_second_server_on_the_same_folder_refuses(fake_server: RunningServer) -> None:
    command = [sys.executable, "-m", "benchyard.cli.main", "serve", "--port", "0", *FAKE]
    second = subprocess.run(
        [*command, "--data", str(fake_server.data)], capture_output=True, text=True, timeout=60, check=False
    )
    assert second.returncode == 5
    assert "another server" in second.stderr
    assert second.stdout == ""
    assert get(f"{fake_server.url}/healthz").status_code == 200


@pytest.mark.parametrize("is_there", [False, True])
def test_a_port_in_use_is_refused_and_leaves_no_file(
    fake_server: RunningServer, tmp_path: Path, is_there: bool
) -> None:
    data = tmp_path / "data"
    if is_there:
        data.mkdir()
    port = fake_server.url.rpartition(":")[2]
    command = [sys.executable, "-m", "benchyard.cli.main", "serve", "--port", port, *FAKE]
    second = subprocess.run(
        [*command, "--data", str(data)], capture_output=True, text=True, timeout=60, check=False
    )
    assert second.returncode == 2
    assert "--port" in second.stderr
    assert data.exists() == is_there
    assert list(data.glob("*")) == []


def test_a_taken_port_of_a_used_folder_names_its_server(fake_server: RunningServer) -> None:
    port = fake_server.url.rpartition(":")[2]
    command = [sys.executable, "-m", "benchyard.cli.main", "serve", "--port", port, *FAKE]
    second = subprocess.run(
        [*command, "--data", str(fake_server.data)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (second.returncode, "another server uses" in second.stderr) == (5, True), second.stderr


def test_an_unknown_driver_is_told(tmp_path: Path) -> None:
    with pytest.raises(ServerUnreachable, match="native"):
        RunningServer(tmp_path / "data", ["--driver", "nonsense"]).start()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_lets_a_request_under_way_finish(number: signal.Signals, tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", FAKE) as server:
        headers = {"authorization": f"Bearer {server.key}"}
        body = {"name": "n", "content_type": "text"}
        made = post(f"{server.url}/v1/objects", json=body, headers=headers).json()
        under_way, go_on = threading.Event(), threading.Event()
        answers: list[httpx.Response] = []

        def pieces() -> Iterator[bytes]:
            yield b"first "
            under_way.set()
            go_on.wait(60)
            yield b"second"

        upload = threading.Thread(target=lambda: answers.append(put(made["upload_url"], content=pieces())))
        upload.start()
        under_way.wait(60)
        # What was sent may still wait to be accepted, and a server that stops accepts nothing more.
        opened = "benchyard_requests_open 2"
        eventually(lambda: opened in get(f"{server.url}/metrics", headers=headers).text, "the request")
        os.kill(server.pid, number)
        eventually(lambda: "stopping" in server.log, "the stop")
        go_on.set()
        upload.join()
        assert server.wait() == 0
        assert answers[0].status_code == 200
        server.start()
        done = post(f"{server.url}/v1/objects/{made['id']}/complete", headers=headers).json()
        assert done["size_bytes"] == len("first second")


def test_the_first_key_survives_and_a_lost_file_is_written_again(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", FAKE) as server:
        key = server.key
        server.restart()
        assert server.key == key
        (server.data / "api-key").unlink()
        server.restart()
        assert server.key == key
        answer = get(f"{server.url}/v1/apikeys", headers={"authorization": f"Bearer {key}"})
        assert answer.json()["total_count"] == 1


def test_when_no_key_opens_any_more_a_start_makes_one(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", FAKE) as server:
        first = server.key
        headers = {"authorization": f"Bearer {first}"}
        (listed,) = get(f"{server.url}/v1/apikeys", headers=headers).json()["apikeys"]
        post(f"{server.url}/v1/apikeys/{listed['id']}/revoke", headers=headers)
        server.restart()
        assert server.key != first
        fresh = {"authorization": f"Bearer {server.key}"}
        assert get(f"{server.url}/v1/accounts/me", headers=fresh).status_code == 200
        assert get(f"{server.url}/v1/accounts/me", headers=headers).status_code == 401


def test_the_server_runs_on_postgres(postgres_database: str, tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", [*FAKE, "--database-url", postgres_database]) as server:
        headers = {"authorization": f"Bearer {server.key}"}
        made = post(f"{server.url}/v1/secrets", json={"name": "PG", "value": "x"}, headers=headers)
        assert made.status_code == 200
        server.restart()
        assert get(f"{server.url}/v1/secrets/PG", headers=headers).json() == made.json()
    assert not (tmp_path / "data" / "benchyard.db").exists()


def test_a_database_that_is_gone_is_503_and_asks_for_a_retry(tmp_path: Path) -> None:
    with ExitStack() as stack:
        with running_postgres() as url:
            options = [*FAKE, "--database-url", url]
            server = stack.enter_context(RunningServer(tmp_path / "data", options))
            headers = {"authorization": f"Bearer {server.key}"}
            assert get(f"{server.url}/v1/secrets", headers=headers).status_code == 200
        answer = get(f"{server.url}/v1/secrets", headers=headers)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert answer.headers["x-should-retry"] == "true"
        assert get(f"{server.url}/healthz").status_code == 200


def test_the_log_is_json_lines_without_secrets(fake_server: RunningServer) -> None:
    headers = {"authorization": f"Bearer {fake_server.key}", "x-request-id": "in-the-log"}
    get(f"{fake_server.url}/v1/secrets?search=not-logged", headers=headers)
    eventually(lambda: "in-the-log" in fake_server.log, "the line")
    lines = [json.loads(line) for line in fake_server.log.splitlines()]
    (mine,) = [line for line in lines if line.get("request_id") == "in-the-log"]
    assert (mine["method"], mine["path"], mine["status"]) == ("GET", "/v1/secrets", 200)
    assert mine["ms"] >= 0
    assert fake_server.key not in fake_server.log
    assert "not-logged" not in fake_server.log


def test_listening_beyond_this_machine_is_warned_about(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", [*FAKE, "--host", "0.0.0.0"]) as server:
        assert "warning" in server.log
        assert "TLS" in server.log
