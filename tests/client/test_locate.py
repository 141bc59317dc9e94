"""Which server a client talks to."""

import json
from pathlib import Path

import pytest

from benchyard.client import Client
from benchyard.client.servers import configured_server, find_server, recorded_pid, running_server
from benchyard.errors import ServerUnreachable, UsageError
from tests.client.stub import Answer, stub


def write_records(data: Path, url: str) -> None:
    data.mkdir(exist_ok=True)
    (data / "server.json").write_text(json.dumps({"url": url, "pid": 4711}))
    (data / "api-key").write_text("local-key\n")


def test_our_own_names_come_first() -> None:
    environ = {
        "BENCHYARD_URL": "http://ours:1/",
        "BENCHYARD_API_KEY": "ours",
        "RUNLOOP_BASE_URL": "http://theirs:1",
        "RUNLOOP_API_KEY": "theirs",
    }
    server = configured_server(environ)
    assert server is not None
    assert (server.url, server.key) == ("http://ours:1", "ours")


def test_the_other_products_names_work_too() -> None:
    server = configured_server({"RUNLOOP_BASE_URL": "https://theirs", "RUNLOOP_API_KEY": "theirs"})
    assert server is not None
    assert (server.url, server.key) == ("https://theirs", "theirs")


def test_key_of_one_product_is_never_sent_to_the_url_of_another(tmp_path: Path) -> None:
    environ = {
        "BENCHYARD_URL": "http://ours:1",
        "RUNLOOP_API_KEY": "theirs",
        "BENCHYARD_DATA": str(tmp_path),
    }
    with pytest.raises(UsageError, match="BENCHYARD_API_KEY"):
        configured_server(environ)


def test_a_key_alone_names_no_server() -> None:
    assert configured_server({"RUNLOOP_API_KEY": "theirs"}) is None


@pytest.mark.parametrize("url", ["localhost:80", "ftp://x", "http://"])
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="BENCHYARD_URL"):
        configured_server({"BENCHYARD_URL": url, "BENCHYARD_API_KEY": "k"})


def test_the_key_of_our_own_server_need_not_be_said(tmp_path: Path) -> None:
    write_records(tmp_path, "http://127.0.0.1:9")
    server = configured_server({"BENCHYARD_URL": "http://127.0.0.1:9/", "BENCHYARD_DATA": str(tmp_path)})
    assert server is not None
    assert server.key == "local-key"


def test_a_running_server_of_this_user_is_found(tmp_path: Path) -> None:
    with stub(lambda asked: Answer({"status": "ok"})) as server:
        write_records(tmp_path, server.url)
        with Client.find({"BENCHYARD_DATA": str(tmp_path)}) as client:
            assert (client.server.url, client.server.key) == (server.url, "local-key")
    assert recorded_pid(tmp_path) == 4711


def test_a_server_that_does_not_answer_is_not_found(tmp_path: Path, unused_url: str) -> None:
    write_records(tmp_path, unused_url)
    assert running_server(tmp_path) is None
    with pytest.raises(ServerUnreachable, match="benchyard serve"):
        find_server({"BENCHYARD_DATA": str(tmp_path)})


@pytest.mark.parametrize(
    "record", ["", "[]", "{}", '{"url": 7, "pid": "x"}', '{"url": "http://[", "pid": 0}']
)
def test_a_damaged_record_is_not_a_server(tmp_path: Path, record: str) -> None:
    write_records(tmp_path, "http://127.0.0.1:9")
    (tmp_path / "server.json").write_text(record)
    assert running_server(tmp_path) is None
    assert recorded_pid(tmp_path) is None
