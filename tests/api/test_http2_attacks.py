"""HTTP/2 from clients that mean harm: each is sent away and costs little; the log has no trace of a fault."""

import random
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import h2.connection
import h2.events
import httpx
import pytest
from h2.errors import ErrorCodes

from benchyard.api.http2.frames import MAX_FRAME_BYTES, FrameMeter, FrameReader
from benchyard.testing.server import RunningServer
from tests.api.devbox import create, eventually
from tests.api.framed import EMPTY_SETTINGS, PREFACE, Framed, Rude, frame
from tests.api.load import MB, address, memory, unread
from tests.api.test_http2 import open_requests, over_http2, stream_path
from tests.api.test_tls import authority

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOODBYE, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED = 0x1, 0x4, 0x8
MOST = 8
GET = bytes([0x82, 0x86, 0x84, 0x41, 1]) + b"x"
"""`GET /` of host `x`, packed."""
SEEDS = 150

pytestmark = pytest.mark.usefixtures("is_unharmed")


@pytest.fixture
def is_unharmed(fake_server: RunningServer) -> Iterator[None]:
    """Whatever was sent: the server answers others, has nothing left under way, and logged no fault."""
    yield
    assert httpx.get(f"{fake_server.url}/healthz", timeout=30).status_code == 200
    eventually(lambda: open_requests(fake_server) == 0, "the end of all requests")
    assert '"trace"' not in fake_server.log


def settings(*pairs: tuple[int, int]) -> bytes:
    payload = b"".join(code.to_bytes(2, "big") + value.to_bytes(4, "big") for code, value in pairs)
    return frame(SETTINGS, payload=payload)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(DATA, stream=0, payload=b"x"), ErrorCodes.PROTOCOL_ERROR),
        (frame(DATA, stream=1, payload=b"x"), ErrorCodes.PROTOCOL_ERROR),
        (frame(DATA, PADDED, 1, b"\xff"), ErrorCodes.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 2, GET), ErrorCodes.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 0, GET), ErrorCodes.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff"), None),
        (frame(HEADERS, END_HEADERS, 1, b""), ErrorCodes.PROTOCOL_ERROR),
        (frame(HEADERS, 0, 1, GET) + frame(PING, payload=bytes(8)), ErrorCodes.PROTOCOL_ERROR),
        (frame(CONTINUATION, END_HEADERS, 1, GET), ErrorCodes.PROTOCOL_ERROR),
        (frame(PRIORITY, 0, 1, bytes([0, 0, 0, 1, 0])), ErrorCodes.PROTOCOL_ERROR),
        (frame(PRIORITY, 0, 1, b"short"[:3]), None),
        (frame(RESET, 0, 0, bytes(4)), ErrorCodes.PROTOCOL_ERROR),
        (frame(RESET, 0, 7, bytes(4)), None),
        (frame(SETTINGS, 0, 1, bytes(6)), ErrorCodes.PROTOCOL_ERROR),
        (frame(SETTINGS, payload=bytes(5)), None),
        (settings((4, 2**31)), ErrorCodes.FLOW_CONTROL_ERROR),
        (settings((5, 1)), ErrorCodes.PROTOCOL_ERROR),
        (settings((2, 7)), ErrorCodes.PROTOCOL_ERROR),
        (frame(PUSH, END_HEADERS, 1, bytes(4) + GET), ErrorCodes.PROTOCOL_ERROR),
        (frame(PING, payload=b"short"), None),
        (frame(GOODBYE, payload=b"short"), None),
        (frame(WINDOW, payload=bytes(4)), None),
        (frame(WINDOW, payload=b"\x7f\xff\xff\xff"), ErrorCodes.FLOW_CONTROL_ERROR),
        (b"\xff\xff\xff" + frame(DATA, stream=1)[3:], ErrorCodes.FRAME_SIZE_ERROR),
        (frame(HEADERS, END_HEADERS, 1, GET + b"\x00\x01X\x01y"), ErrorCodes.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 1, GET + b"\x00\x0aconnection\x01y"), ErrorCodes.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 1, GET + b"\x00\x01a\x03b\r\n"), ErrorCodes.PROTOCOL_ERROR),
        (
            frame(HEADERS, END_HEADERS, 1, GET + b"\x00\x0econtent-length\x015")
            + frame(DATA, END_STREAM, 1, b"longer"),
            ErrorCodes.PROTOCOL_ERROR,
        ),
    ],
)
def test_invalid_http2_ends_the_connection(
    fake_server: RunningServer, sent: bytes, code: ErrorCodes | None
) -> None:
    with Rude(fake_server) as client:
        client.send(sent)
        told = client.ended()
        assert told not in (None, ErrorCodes.NO_ERROR)
        assert code is None or told == code


def test_a_frame_that_is_announced_as_too_large_is_not_waited_for() -> None:
    frames = FrameReader(FrameMeter())
    assert [each.raw for each in frames.feed(PREFACE + EMPTY_SETTINGS)] == [PREFACE, EMPTY_SETTINGS]
    whole = frame(DATA, 0, 1, b"x" * MAX_FRAME_BYTES)
    assert list(frames.feed(whole[:-1])) == []
    assert [each.raw for each in frames.feed(whole[-1:])] == [whole]
    with pytest.raises(h2.exceptions.FrameTooLargeError):
        list(frames.feed(frame(DATA, 0, 1, b"x" * (MAX_FRAME_BYTES + 1))[:9]))


def test_patience_comes_back_with_time() -> None:
    now = 0.0
    meter = FrameMeter(lambda: now)
    for _ in range(5000):
        meter.frame(PING, 0, 8)
    with pytest.raises(h2.exceptions.DenialOfServiceError):
        meter.frame(PING, 0, 8)
    now = 3600.0
    for _ in range(1000):
        meter.frame(PING, 0, 8)
        meter.reset()
    for _ in range(100_000):
        # A client that takes its answers says so without end.
        meter.sent()
        meter.frame(WINDOW, 0, 4)


def pings() -> Iterator[bytes]:
    while True:
        yield frame(PING, payload=bytes(8)) * 1000


def answers_to_no_ping() -> Iterator[bytes]:
    while True:
        yield frame(PING, 1, payload=bytes(8)) * 1000


def new_settings() -> Iterator[bytes]:
    while True:
        yield (settings((4, 1)) + settings((4, 2**31 - 1), (1, 2**32 - 1))) * 500


def priorities() -> Iterator[bytes]:
    while True:
        yield frame(PRIORITY, 0, 5, bytes(5)) * 1000


def windows() -> Iterator[bytes]:
    while True:
        yield frame(WINDOW, payload=bytes([0, 0, 0, 1])) * 1000


def strange_frames() -> Iterator[bytes]:
    while True:
        yield frame(0xEE, 0xFF, 3, b"x") * 1000


def resets_of_nothing() -> Iterator[bytes]:
    yield frame(HEADERS, END_HEADERS | END_STREAM, 1, GET)
    while True:
        yield frame(RESET, 0, 1, bytes(4)) * 1000


def empty_pieces() -> Iterator[bytes]:
    yield frame(HEADERS, END_HEADERS, 1, GET)
    while True:
        yield frame(DATA, 0, 1) * 1000


def rapid_resets() -> Iterator[bytes]:
    stream = 1
    while True:
        yield frame(HEADERS, END_HEADERS | END_STREAM, stream, GET) + frame(RESET, 0, stream, bytes(4))
        stream += 2


def resets_that_we_are_made_to_send() -> Iterator[bytes]:
    stream = 1
    while True:
        overflow = frame(WINDOW, 0, stream, b"\x7f\xff\xff\xff")
        yield frame(HEADERS, END_HEADERS | END_STREAM, stream, GET) + overflow
        stream += 2


def endless_headers() -> Iterator[bytes]:
    yield frame(HEADERS, 0, 1, GET)
    while True:
        yield frame(CONTINUATION, 0, 1, b"\x00\x01a\x7f\x80\x7f" + b"x" * 16000)


def endless_empty_headers() -> Iterator[bytes]:
    yield frame(HEADERS, 0, 1, GET)
    while True:
        yield frame(CONTINUATION, 0, 1) * 100


def packed_bombs() -> Iterator[bytes]:
    """One header of nearly the whole table, then again and again by its number."""
    large = b"\x40\x01a\x7f" + bytes([0x80 | (3800 - 127) & 0x7F, (3800 - 127) >> 7]) + b"x" * 3800
    yield frame(HEADERS, END_HEADERS | END_STREAM, 1, GET + large)
    yield frame(HEADERS, END_HEADERS | END_STREAM, 3, GET + b"\xbe" * 16000)
    while True:
        yield b""


@pytest.mark.parametrize(
    "flood",
    [
        pings,
        answers_to_no_ping,
        new_settings,
        priorities,
        windows,
        strange_frames,
        resets_of_nothing,
        empty_pieces,
        rapid_resets,
        resets_that_we_are_made_to_send,
        endless_headers,
        endless_empty_headers,
        packed_bombs,
    ],
)
def test_floods_end_the_connection(fake_server: RunningServer, flood: Callable[[], Iterator[bytes]]) -> None:
    before = memory(fake_server)
    with Rude(fake_server) as client:
        sent = 0
        for piece in flood():
            client.send(piece)
            sent += len(piece)
            if client.is_over:
                break
            assert sent < 16 * MB, "nobody minds"
        assert client.ended() in (ErrorCodes.ENHANCE_YOUR_CALM, ErrorCodes.PROTOCOL_ERROR)
    assert memory(fake_server) - before < 16 * MB


def test_a_client_that_changes_its_mind_now_and_then_is_served(fake_server: RunningServer) -> None:
    with over_http2(fake_server) as other, Framed(fake_server) as client:
        box = create(other)
        path = stream_path(box, "sleep 600")
        for _ in range(3):
            taken_back = [client.ask("GET", path) for _ in range(100)]
            client.until(lambda: all(client.told[each].headers for each in taken_back), "all of them")  # noqa: B023
            for each in taken_back:
                client.http.reset_stream(each, ErrorCodes.CANCEL)
            client.flush()
            eventually(lambda: open_requests(fake_server) == 0, "the end of all")
        assert client.get("/healthz").status == 200
        box.post("shutdown")


def test_a_table_of_any_size_is_not_kept_for_a_client(fake_server: RunningServer) -> None:
    with Framed(fake_server, {1: 2**32 - 1}) as client:
        before = memory(fake_server)
        for number in range(2000):
            stream = client.ask("GET", "/healthz", b"", [("x-request-id", f"{number:06}" * 40)])
            assert client.answer(stream).status == 200
        assert memory(fake_server) - before < 8 * MB
        assert client.http.decoder.header_table_size <= 4096


def test_random_bytes_and_random_frames_end_nothing_but_their_connection(fake_server: RunningServer) -> None:
    for seed in range(SEEDS):
        chance = random.Random(seed)
        with socket.create_connection(address(fake_server), timeout=30) as connection:
            connection.sendall(PREFACE + EMPTY_SETTINGS + frame(HEADERS, END_HEADERS, 1, GET))
            for _ in range(chance.randrange(1, 8)):
                payload = chance.randbytes(chance.choice([0, 1, 4, 5, 6, 8, 9, 60, 300]))
                if chance.random() < 0.3:
                    payload = GET + payload
                flags = chance.choice([0, 1, 4, 5, 8, 0x20, 0x2D, 0xFF])
                sent = frame(chance.randrange(12), flags, chance.choice([0, 1, 1, 2, 3, 5]), payload)
                if chance.random() < 0.05:
                    sent = chance.randbytes(20)
                try:
                    connection.sendall(sent)
                except ConnectionError:
                    break


def test_a_client_that_does_not_speak_what_it_chose_is_sent_away(tmp_path: Path) -> None:
    options = [
        "--driver",
        "fake",
        "--tls-self-signed",
        "--max-connections",
        str(MOST),
        "--client-timeout",
        "60",
    ]
    with RunningServer(tmp_path / "data", options) as server:
        assert told_under_tls(server, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" + bytes(30))[-1] in (
            ErrorCodes.PROTOCOL_ERROR,
            ErrorCodes.FRAME_SIZE_ERROR,
        )
        with ExitStack() as held, httpx.Client(verify=authority(server), base_url=server.url) as other:
            other.headers["authorization"] = f"Bearer {server.key}"
            box = create(other)
            path = stream_path(box, "sleep 600")
            other.close()
            for _ in range(MOST):
                client = held.enter_context(httpx.Client(verify=authority(server), timeout=30))
                given = {"authorization": f"Bearer {server.key}"}
                stream = client.stream("GET", f"{server.url}{path}", headers=given)
                assert held.enter_context(stream).status_code == 200
            # One more than there is room for.
            assert told_under_tls(server, PREFACE + EMPTY_SETTINGS)[-1] == ErrorCodes.ENHANCE_YOUR_CALM
        assert '"trace"' not in server.log


def told_under_tls(server: RunningServer, sent: bytes) -> list[int]:
    """The codes of the goodbyes that a client gets which settles on HTTP/2 and then sends this."""
    context: ssl.SSLContext = authority(server)
    context.set_alpn_protocols(["h2"])
    codes = []
    http = h2.connection.H2Connection()
    http.initiate_connection()
    with (
        socket.create_connection(address(server), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        assert connection.selected_alpn_protocol() == "h2"
        connection.sendall(sent)
        while data := connection.recv(65536):
            events = http.receive_data(data)
            codes += [
                int(event.error_code or 0)
                for event in events
                if isinstance(event, h2.events.ConnectionTerminated)
            ]
    return codes


def test_a_client_that_reads_nothing_is_dropped(tmp_path: Path) -> None:
    options = ["--driver", "fake", "--client-timeout", "2"]
    with RunningServer(tmp_path / "data", options) as server, over_http2(server) as other:
        box = create(other)
        path = stream_path(box, "head -c 30000000 /dev/zero | tr '\\0' x | fold -w 99")
        http = h2.connection.H2Connection()
        http.initiate_connection()
        http.increment_flow_control_window(2**30)
        http.update_settings({4: 2**30})
        names = [(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", path)]
        http.send_headers(1, [*names, ("authorization", f"Bearer {server.key}")], end_stream=True)
        before = memory(server)
        with unread(server, http.data_to_send()):
            eventually(lambda: "did not read its answer" in server.log, "the end of who takes nothing")
            assert memory(server) - before < 16 * MB
        box.post("shutdown")
