"""A client cannot send more, or slower, than the server has agreed to."""

import socket
from urllib.parse import urlsplit

import httpx
import pytest

from benchyard.testing.server import RunningServer


def raw(server: RunningServer, *pieces: bytes) -> bytes:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = b""
        try:
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
        return answer


def test_huge_header_is_431(fake_server: RunningServer) -> None:
    answer = raw(fake_server, b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-big: ", *([b"a" * 4096] * 64))
    assert b" 431 " in answer or answer == b""


def test_many_headers_are_431(api: httpx.Client) -> None:
    answer = api.get("/healthz", headers={f"x-{number}": "a" * 1000 for number in range(70)})
    assert answer.status_code == 431
    assert answer.json()["code"] == "too_large"


def test_a_stream_of_headers_is_cut(fake_server: RunningServer) -> None:
    answer = raw(
        fake_server, b"GET /healthz HTTP/1.1\r\nhost: x\r\n", *([b"x-more: " + b"a" * 8000 + b"\r\n"] * 40)
    )
    assert b" 200 " not in answer


def test_a_declared_body_over_the_limit_is_413(fake_server: RunningServer) -> None:
    head = (
        f"POST /v1/secrets HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {fake_server.key}\r\n"
        "content-type: application/json\r\ncontent-length: 99999999999\r\n\r\n"
    )
    answer = raw(fake_server, head.encode())
    assert b" 413 " in answer
    assert b"limit_bytes" in answer


@pytest.mark.parametrize("length", ["-1", "12a", "", "99999999999999999999999999999999"])
def test_a_nonsense_length_is_refused(length: str, fake_server: RunningServer) -> None:
    head = (
        f"POST /v1/secrets HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {fake_server.key}\r\n"
        f"content-type: application/json\r\ncontent-length: {length}\r\n\r\n{{}}"
    )
    status = raw(fake_server, head.encode()).split(b" ")[1]
    assert status in (b"400", b"413")


def test_the_server_lives_on(api: httpx.Client) -> None:
    assert api.get("/healthz").status_code == 200
