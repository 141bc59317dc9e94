"""Objects are uploaded, completed, downloaded, listed and deleted."""

import hashlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from runloop_api_client import ConflictError, Runloop, RunloopSDK

from benchyard.testing.server import RunningServer


def make(api: httpx.Client, **fields: object) -> dict[str, Any]:
    made: dict[str, Any] = api.post(
        "/v1/objects", json={"name": "n", "content_type": "binary", **fields}
    ).json()
    return made


def stored(api: httpx.Client, content: bytes, **fields: object) -> dict[str, Any]:
    made = make(api, **fields)
    assert httpx.put(made["upload_url"], content=content).status_code == 200
    done: dict[str, Any] = api.post(f"/v1/objects/{made['id']}/complete").json()
    return done


def link(api: httpx.Client, id: str, **params: object) -> str:
    url: str = api.get(f"/v1/objects/{id}/download", params={k: str(v) for k, v in params.items()}).json()[
        "download_url"
    ]
    return url


def contents(server: RunningServer) -> list[Path]:
    return [file for file in (server.data / "objects").rglob("*") if file.is_file()]


def test_the_official_client_stores_text_bytes_and_files(fake_server: RunningServer, tmp_path: Path) -> None:
    sdk = RunloopSDK(base_url=fake_server.url, bearer_token=fake_server.key)
    text = sdk.storage_object.upload_from_text("hällo", name="text", metadata={"kind": "note"})
    assert text.download_as_text() == "hällo"
    assert text.refresh().state == "READ_ONLY"
    data = os.urandom(100_000)
    file = tmp_path / "data.bin"
    file.write_bytes(data)
    assert sdk.storage_object.upload_from_file(file).download_as_bytes() == data
    assert text.delete().state == "DELETED"


def test_complete_twice_is_a_conflict_without_retry(fake_server: RunningServer, api: httpx.Client) -> None:
    done = stored(api, b"x")
    client = Runloop(base_url=fake_server.url, bearer_token=fake_server.key)
    started = time.monotonic()
    with pytest.raises(ConflictError) as conflict:
        client.objects.complete(done["id"])
    assert conflict.value.response.headers["x-should-retry"] == "false"
    assert time.monotonic() - started < 30
    assert api.get(f"/v1/objects/{done['id']}").json()["state"] == "READ_ONLY"


def test_complete_without_an_upload_is_400(api: httpx.Client) -> None:
    made = make(api)
    answer = api.post(f"/v1/objects/{made['id']}/complete")
    assert answer.status_code == 400
    assert "upload_url" in answer.json()["message"]
    assert api.get(f"/v1/objects/{made['id']}").json()["state"] == "UPLOADING"


def test_an_upload_cut_in_half_changes_nothing(fake_server: RunningServer, api: httpx.Client) -> None:
    made = make(api)
    before = contents(fake_server)
    parts = urlsplit(made["upload_url"])
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        head = f"PUT {parts.path}?{parts.query} HTTP/1.1\r\nhost: x\r\ncontent-length: 20000000\r\n\r\n"
        connection.sendall(head.encode() + b"x" * 10_000_000)
    deadline = time.monotonic() + 30
    while contents(fake_server) != before:
        assert time.monotonic() < deadline
    assert api.get(f"/v1/objects/{made['id']}").json()["state"] == "UPLOADING"
    assert api.post(f"/v1/objects/{made['id']}/complete").status_code == 400
    assert httpx.put(made["upload_url"], content=b"whole").status_code == 200
    assert api.post(f"/v1/objects/{made['id']}/complete").json()["size_bytes"] == 5


def test_the_last_upload_before_complete_counts_and_none_after(
    fake_server: RunningServer, api: httpx.Client
) -> None:
    made = make(api)
    for content in (b"first", b"second"):
        assert httpx.put(made["upload_url"], content=content).status_code == 200
    assert len(list((fake_server.data / "objects" / made["id"]).iterdir())) == 1
    api.post(f"/v1/objects/{made['id']}/complete")
    assert httpx.put(made["upload_url"], content=b"third").status_code == 409
    assert httpx.get(link(api, made["id"])).content == b"second"


def test_a_large_content_streams_through(api: httpx.Client) -> None:
    sent, received = hashlib.sha256(), hashlib.sha256()

    def pieces() -> Iterator[bytes]:
        for number in range(64):
            piece = bytes([number]) * 1024**2
            sent.update(piece)
            yield piece

    made = make(api)
    assert httpx.put(made["upload_url"], content=pieces(), timeout=60).status_code == 200
    assert api.post(f"/v1/objects/{made['id']}/complete").json()["size_bytes"] == 64 * 1024**2
    with httpx.stream("GET", link(api, made["id"]), timeout=60) as answer:
        for piece in answer.iter_bytes():
            received.update(piece)
    assert sent.digest() == received.digest()


def test_an_empty_object_is_an_object(api: httpx.Client) -> None:
    done = stored(api, b"")
    assert done["size_bytes"] == 0
    assert httpx.get(link(api, done["id"])).content == b""


@pytest.mark.parametrize(
    ("header", "status", "expected"),
    [
        ("bytes=0-3", 206, b"0123"),
        ("bytes=8-", 206, b"89"),
        ("bytes=8-100", 206, b"89"),
        ("bytes=-3", 206, b"789"),
        ("bytes=-100", 206, b"0123456789"),
        ("bytes=5-2", 200, b"0123456789"),
        ("lines=1-2", 200, b"0123456789"),
    ],
)
def test_ranges_are_served(header: str, status: int, expected: bytes, api: httpx.Client) -> None:
    done = stored(api, b"0123456789")
    answer = httpx.get(link(api, done["id"]), headers={"range": header})
    assert (answer.status_code, answer.content) == (status, expected)


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=10-20", "bytes=999999999999999999-", "bytes=-0"])
def test_a_range_past_the_end_is_416_and_tells_the_size(header: str, api: httpx.Client) -> None:
    done = stored(api, b"0123456789")
    answer = httpx.get(link(api, done["id"]), headers={"range": header})
    assert answer.status_code == 416
    assert answer.headers["content-range"] == "bytes */10"
    assert answer.json()["details"] == {"size_bytes": 10}


def test_an_empty_object_has_no_range(api: httpx.Client) -> None:
    done = stored(api, b"")
    answer = httpx.get(link(api, done["id"]), headers={"range": "bytes=0-"})
    assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */0")


def test_links_open_one_verb_of_one_object_until_they_expire(api: httpx.Client) -> None:
    one, two = stored(api, b"one"), stored(api, b"two")
    url = link(api, one["id"])
    changed = [
        url.replace(one["id"], two["id"]),
        url.replace("/download/", "/upload/"),
        url.replace("expires=", "expires=9"),
        url[:-1] + ("0" if url[-1] != "0" else "1"),
    ]
    answers = [httpx.put(each) if "/upload/" in each else httpx.get(each) for each in changed]
    assert [answer.status_code for answer in answers] == [403] * 4
    assert httpx.get(url.partition("?")[0]).status_code == 400
    short = link(api, one["id"], duration_seconds=1)
    deadline = time.monotonic() + 30
    while httpx.get(short).status_code == 200:
        assert time.monotonic() < deadline
    assert httpx.get(short).status_code == 403


def test_signatures_are_not_logged(fake_server: RunningServer, api: httpx.Client) -> None:
    url = link(api, stored(api, b"x")["id"])
    httpx.get(url)
    deadline = time.monotonic() + 30
    while "/objects/download/{id}" not in fake_server.log:
        assert time.monotonic() < deadline
    assert url.rpartition("=")[2] not in fake_server.log


def test_a_deleted_object_is_known_but_its_content_gone(
    fake_server: RunningServer, api: httpx.Client
) -> None:
    done = stored(api, b"x")
    url = link(api, done["id"])
    assert api.post(f"/v1/objects/{done['id']}/delete").json()["state"] == "DELETED"
    assert api.get(f"/v1/objects/{done['id']}").json()["state"] == "DELETED"
    assert httpx.get(url).status_code == 404
    assert api.get(f"/v1/objects/{done['id']}/download").status_code == 404
    assert not any(done["id"] in str(file) for file in contents(fake_server))
    assert api.post(f"/v1/objects/{done['id']}/delete").json()["state"] == "DELETED"


def test_an_object_ends_with_its_time(fake_server: RunningServer, api: httpx.Client) -> None:
    done = stored(api, b"x", ttl_ms=1500)
    deadline = time.monotonic() + 30
    while api.get(f"/v1/objects/{done['id']}").json()["state"] != "DELETED":
        assert time.monotonic() < deadline
    assert not any(done["id"] in str(file) for file in contents(fake_server))


def test_listings_filter_and_leave_out_what_was_deleted(api: httpx.Client) -> None:
    first = stored(api, b"x", name="listed one", content_type="text", metadata={"listed": "yes"})
    second = make(api, name="listed two", metadata={"listed": "no"})
    gone = make(api, name="listed gone")
    api.post(f"/v1/objects/{gone['id']}/delete")

    def ids(**params: str) -> list[str]:
        return [each["id"] for each in api.get("/v1/objects", params=params).json()["objects"]]

    assert ids(search="LISTED") == [second["id"], first["id"]]
    assert ids(search="listed", content_type="text") == [first["id"]]
    assert ids(search="listed", state="UPLOADING") == [second["id"]]
    assert ids(search="listed", state="DELETED") == [gone["id"]]
    assert ids(name="listed one") == [first["id"]]
    assert ids(search=second["id"]) == [second["id"]]
    assert "listed" in api.get("/v1/objects/metadata/keys").json()["keys"]
    assert api.get("/v1/objects/metadata/keys/listed/values").json()["values"] == ["no", "yes"]
    assert api.get("/v1/objects", params={"state": "LOST"}).status_code == 400


def test_public_objects_are_an_empty_page(fake_server: RunningServer) -> None:
    client = Runloop(base_url=fake_server.url, bearer_token=fake_server.key)
    assert list(client.objects.list_public()) == []


def test_an_upload_over_the_limit_is_refused_before_it_comes(api: httpx.Client) -> None:
    parts = urlsplit(make(api)["upload_url"])
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        head = f"PUT {parts.path}?{parts.query} HTTP/1.1\r\nhost: x\r\ncontent-length: {10**12}\r\n\r\n"
        connection.sendall(head.encode())
        assert b" 413 " in connection.recv(65536)
