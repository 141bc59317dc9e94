"""HTTP/2: the same API on the same port, many requests at once on one connection."""

import asyncio
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from h2.errors import ErrorCodes
from runloop_api_client import AsyncRunloop, DefaultAsyncHttpxClient, DefaultHttpxClient, Runloop

from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, create, eventually, good
from tests.api.framed import EMPTY_SETTINGS, PREFACE, Framed
from tests.api.load import MB, address, memory, peak_memory
from tests.api.test_tls import authority
from tests.api.tunnelled import Tunnelled, echoed, tunnelled

FAKE = ("--driver", "fake")
CLIENT_SECONDS = 2.0
KEEP_ALIVE_SECONDS = 5.0
LARGE = 48 * MB
MANY = 100


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that waits for nobody for long."""
    options = [*FAKE, "--client-timeout", str(CLIENT_SECONDS)]
    with RunningServer(tmp_path_factory.mktemp("strict") / "data", options) as running:
        yield running


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with TLS."""
    with RunningServer(tmp_path_factory.mktemp("tls") / "data", [*FAKE, "--tls-self-signed"]) as running:
        yield running


@pytest.fixture(scope="module")
def tunnel(fake_server: RunningServer) -> Iterator[Tunnelled]:
    with over_http2(fake_server) as client:
        made = tunnelled(create(client), auth_mode="open")
        yield made
        made.devbox.post("shutdown")


def over_http2(server: RunningServer) -> httpx.Client:
    """httpx, which speaks HTTP/2 without asking when it may speak nothing else."""
    headers = {"authorization": f"Bearer {server.key}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=60, http1=False, http2=True)


def open_requests(server: RunningServer) -> int:
    """How many requests are under way beside the one that asks."""
    headers = {"authorization": f"Bearer {server.key}"}
    text = httpx.get(f"{server.url}/metrics", headers=headers, timeout=30).text
    (line,) = [line for line in text.splitlines() if line.startswith("benchyard_requests_open ")]
    return int(float(line.split()[1])) - 1


def stream_path(box: DevboxOverHttp, script: str) -> str:
    """Where the output of a command can be followed."""
    return f"/v1/devboxes/{box.id}/executions/{box.start(script)}/stream_stdout_updates"


def output(body: bytes | bytearray) -> str:
    """What a stream of events told."""
    lines = [line[6:] for line in bytes(body).split(b"\n") if line.startswith(b"data: ")]
    return "".join(json.loads(line)["output"] for line in lines)


class TestRequests:
    def test_a_client_begins_with_it_over_plain_http(self, fake_server: RunningServer) -> None:
        with over_http2(fake_server) as client:
            answer = client.get("/v1/accounts/me")
            assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
            assert "date" in answer.headers
            made = good(client.post("/v1/secrets", json={"name": "H2", "value": "x"}))
            assert good(client.get("/v1/secrets/H2")) == made
            assert client.get("/v1/secrets/NONE").status_code == 404
            assert client.head("/healthz").content == b""
            assert client.get("/healthz", headers={"x-request-id": "mine"}).headers["x-request-id"] == "mine"

    def test_a_client_under_tls_is_offered_it_and_may_decline(self, secure: RunningServer) -> None:
        for both, version in ((True, "HTTP/2"), (False, "HTTP/1.1")):
            with httpx.Client(verify=authority(secure), http2=both) as client:
                answer = client.get(f"{secure.url}/healthz")
                assert (answer.status_code, answer.http_version) == (200, version)

    def test_keys_rates_and_limits_hold(self, tmp_path: Path) -> None:
        options = [*FAKE, "--requests-per-second", "0.1", "--request-burst", "3"]
        with RunningServer(tmp_path / "data", options) as server, over_http2(server) as client:
            assert client.get("/v1/devboxes", headers={"authorization": "Bearer no"}).status_code == 401
            assert [client.get("/v1/devboxes").status_code for _ in range(4)] == [200, 200, 200, 429]
            answer = client.post("/v1/secrets", content=b"{}", headers={"content-encoding": "gzip"})
            assert answer.status_code == 429

    def test_every_request_is_in_the_log_and_in_the_metrics(self, fake_server: RunningServer) -> None:
        with over_http2(fake_server) as client:
            client.get("/v1/secrets", headers={"x-request-id": "over-http2"})
            eventually(lambda: "over-http2" in fake_server.log, "its line")
            text = client.get("/metrics").text
        assert 'benchyard_requests_total{method="GET",route="/v1/secrets",status="200"}' in text

    def test_the_first_bytes_may_come_one_by_one(self, fake_server: RunningServer) -> None:
        with socket.create_connection(address(fake_server), timeout=30) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for each in PREFACE + EMPTY_SETTINGS:
                connection.sendall(bytes([each]))
            first = connection.recv(9)
            assert (len(first), first[3]) == (9, 4), first
        with socket.create_connection(address(fake_server), timeout=30) as connection:
            for each in b"PROPFIND /healthz HTTP/1.1\r\nhost: x\r\n\r\n":
                connection.sendall(bytes([each]))
            assert connection.recv(12) == b"HTTP/1.1 405"

    def test_curl_speaks_it(self, fake_server: RunningServer, tmp_path: Path) -> None:
        if shutil.which("curl") is None or "HTTP2" not in told_by("curl", "--version"):
            pytest.skip("curl is not there, or does not speak HTTP/2")
        with over_http2(fake_server) as client:
            made = good(client.post("/v1/objects", json={"name": "curl", "content_type": "binary"}))
            content = os.urandom(3 * MB)
            (tmp_path / "file").write_bytes(content)
            given = ["curl", "-sS", "--http2-prior-knowledge", "-w", "%{http_version} %{http_code}"]
            expect = ["-H", "expect: 100-continue", "-T", str(tmp_path / "file")]
            assert told_by(*given, *expect, made["upload_url"]).endswith("2 200")
            good(client.post(f"/v1/objects/{made['id']}/complete"))
            url = good(client.get(f"/v1/objects/{made['id']}/download"))["download_url"]
            assert told_by(*given, "-o", str(tmp_path / "back"), url) == "2 200"
            assert (tmp_path / "back").read_bytes() == content

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("NONSENSE", "/healthz"),
            ("GET", "healthz"),
            ("GET", "/\u00e9"),
            ("GET", "/a b"),
            ("get", "/healthz"),
        ],
    )
    def test_invalid_request_is_400_and_the_connection_goes_on(
        self, fake_server: RunningServer, method: str, path: str
    ) -> None:
        with Framed(fake_server) as client:
            refused = client.answer(client.ask(method, path, b""))
            assert (refused.status, refused.json["code"]) == (400, "bad_request")
            assert client.get("/healthz").status == 200
        with over_http2(fake_server) as other:
            assert "NONSENSE" not in other.get("/metrics").text

    def test_a_body_that_was_told_of_and_is_not_there_is_400(self, fake_server: RunningServer) -> None:
        with Framed(fake_server) as client:
            for length, status in (("5", 400), ("0", 200)):
                stream = client.ask("GET", "/healthz", None, [("content-length", length)])
                assert client.answer(stream).status == status

    def test_headers_that_are_too_large_are_431(self, fake_server: RunningServer) -> None:
        with Framed(fake_server) as client:
            large = client.ask("GET", "/v1/secrets", b"", [("x-large", "x" * 80_000)])
            assert client.answer(large).status == 431
            assert client.get("/healthz").status == 200
            client.ask("GET", "/v1/secrets", b"", [("x-large", "x" * 140_000)])
            assert client.ended() == ErrorCodes.ENHANCE_YOUR_CALM

    def test_a_client_that_waits_to_go_on_is_told_so(self, fake_server: RunningServer) -> None:
        with Framed(fake_server) as client:
            headers = [("content-type", "application/json"), ("expect", "100-continue")]
            stream = client.ask("POST", "/v1/secrets", None, headers)
            client.until(lambda: client.told[stream].interim == ["100"], "the word to go on")
            client.send(stream, b'{"name": "EXPECTED", "value": "x"}')
            assert client.answer(stream).status == 200

    def test_answers_hold_nothing_that_belongs_to_http_1(self, fake_server: RunningServer) -> None:
        with Framed(fake_server) as client:
            refused = client.ask(
                "POST", "/v1/secrets", b"{}", [("content-length", "2"), ("content-encoding", "x")]
            )
            told = client.answer(refused)
            assert told.status == 415
            assert not {"connection", "transfer-encoding", "keep-alive"} & set(told.headers)


class TestTheOfficialClient:
    def test_it_speaks_http2_under_tls(self, secure: RunningServer) -> None:
        http = DefaultHttpxClient(verify=authority(secure))
        with Runloop(base_url=secure.url, bearer_token=secure.key, http_client=http) as client:
            answer = client.secrets.with_raw_response.list()
            assert answer.http_response.http_version == "HTTP/2"
            devbox = client.devboxes.create_and_await_running(name="over http2")
            result = client.devboxes.execute_and_await_completion(devbox.id, command="seq 20000")
            follow = client.devboxes.executions.stream_stdout_updates
            stream = follow(result.execution_id, devbox_id=devbox.id)
            assert "".join(chunk.output for chunk in stream) == "".join(f"{n}\n" for n in range(1, 20001))
            client.devboxes.shutdown(devbox.id)

    def test_many_devboxes_at_once(self, secure: RunningServer) -> None:
        async def one(client: AsyncRunloop, number: int) -> str:
            devbox = await client.devboxes.create_and_await_running(name=f"fan {number}")
            run = client.devboxes.execute_and_await_completion
            result = await run(devbox.id, command=f"sleep 0.2; echo {number}")
            await client.devboxes.shutdown(devbox.id)
            return result.stdout or ""

        async def all_of_them() -> list[str]:
            http = DefaultAsyncHttpxClient(verify=authority(secure))
            async with AsyncRunloop(base_url=secure.url, bearer_token=secure.key, http_client=http) as client:
                return await asyncio.gather(*[one(client, number) for number in range(30)])

        assert asyncio.run(all_of_them()) == [f"{number}\n" for number in range(30)]


class TestManyAtOnce:
    def test_a_hundred_long_polls_share_a_connection_with_others(self, fake_server: RunningServer) -> None:
        with over_http2(fake_server) as other, Framed(fake_server) as client:
            box = create(other)
            execution = box.start("until [ -e go ]; do sleep 0.05; done; echo went")
            path = f"/v1/devboxes/{box.id}/executions/{execution}/wait_for_status"
            waiting = [
                client.post(path, {"statuses": ["completed"], "timeout_seconds": 25}) for _ in range(MANY)
            ]
            assert client.get("/healthz").status == 200
            eventually(lambda: open_requests(fake_server) >= MANY, "all of them")
            assert not any(client.told[each].is_over for each in waiting)
            box.run("touch go")
            for each in waiting:
                assert (client.answer(each).status, client.told[each].json["stdout"]) == (200, "went\n")
            box.post("shutdown")

    def test_more_at_once_than_were_agreed_on_end_the_connection(self, fake_server: RunningServer) -> None:
        with over_http2(fake_server) as other, Framed(fake_server) as client:
            box = create(other)
            path = stream_path(box, "sleep 600")
            settings = client.http.remote_settings
            assert settings.max_concurrent_streams == 128
            for _ in range(128):
                client.ask("GET", path)
            client.until(lambda: all(told.headers for told in client.told.values()), "all of them")
            settings._settings[3].append(1000)
            settings.acknowledge()
            client.ask("GET", path)
            assert client.ended() is not None
            box.post("shutdown")
        eventually(lambda: open_requests(fake_server) == 0, "the end of all")

    def test_a_request_that_is_taken_back_ends_alone(self, fake_server: RunningServer) -> None:
        with over_http2(fake_server) as other, Framed(fake_server) as client:
            box = create(other)
            path = stream_path(box, "echo began; until [ -e go ]; do sleep 0.05; done; echo ended")
            kept, taken_back = client.ask("GET", path), client.ask("GET", path)
            client.until(lambda: all(b"began" in told.body for told in client.told.values()), "both")
            assert open_requests(fake_server) == 2
            client.http.reset_stream(taken_back, ErrorCodes.CANCEL)
            client.flush()
            eventually(lambda: open_requests(fake_server) == 1, "the end of one")
            box.run("touch go")
            assert output(client.answer(kept).body) == "began\nended\n"
            box.post("shutdown")

    def test_a_client_that_goes_is_forgotten(self, fake_server: RunningServer) -> None:
        with over_http2(fake_server) as other:
            box = create(other)
            path = stream_path(box, "sleep 600")
            with Framed(fake_server) as client:
                for _ in range(20):
                    client.ask("GET", path)
                client.until(lambda: all(told.headers for told in client.told.values()), "all of them")
            eventually(lambda: open_requests(fake_server) == 0, "the end of all")
            box.post("shutdown")

    def test_a_client_that_says_goodbye_still_gets_what_it_asked_for(
        self, fake_server: RunningServer
    ) -> None:
        with over_http2(fake_server) as other, Framed(fake_server) as client:
            box = create(other)
            stream = client.ask("GET", stream_path(box, "sleep 0.5; echo late"))
            client.raw(bytes([0, 0, 8, 7, 0, 0, 0, 0, 0]) + bytes(8))
            assert output(client.answer(stream).body) == "late\n"
            assert client.ended() == ErrorCodes.NO_ERROR
            box.post("shutdown")


class TestBodies:
    def test_large_ones_pass_both_ways(self, fake_server: RunningServer) -> None:
        content = os.urandom(MB) * (LARGE // MB)
        with over_http2(fake_server) as other, Framed(fake_server) as client:
            made = good(other.post("/v1/objects", json={"name": "large", "content_type": "binary"}))
            before = memory(fake_server)
            put = client.ask("PUT", path_of(made["upload_url"]), content)
            assert client.answer(put).status == 200
            good(other.post(f"/v1/objects/{made['id']}/complete"))
            url = good(other.get(f"/v1/objects/{made['id']}/download"))["download_url"]
            got = client.get(path_of(url))
            assert hashlib.sha256(got.body).digest() == hashlib.sha256(content).digest()
            assert memory(fake_server) - before < 24 * MB
            again = other.get(url)
            assert (again.http_version, len(again.content)) == ("HTTP/2", LARGE)

    def test_events_come_when_they_happen(self, fake_server: RunningServer) -> None:
        with over_http2(fake_server) as other, Framed(fake_server) as client:
            box = create(other)
            path = stream_path(box, "echo one; until [ -e go ]; do sleep 0.05; done; echo two")
            stream = client.ask("GET", path)
            client.until(lambda: output(client.told[stream].body) == "one\n", "the first")
            assert client.told[stream].headers["content-type"].startswith("text/event-stream")
            box.run("touch go")
            assert output(client.answer(stream).body) == "one\ntwo\n"
            box.post("shutdown")

    def test_readers_that_take_nothing_cost_little_and_are_dropped_alone(self, strict: RunningServer) -> None:
        with over_http2(strict) as other, Framed(strict) as client:
            box = create(other)
            path = stream_path(box, "head -c 30000000 /dev/zero | tr '\\0' x | fold -w 99")
            before = memory(strict)
            slow = [client.ask("GET", path) for _ in range(20)]
            client.held.update(slow)
            begin = time.monotonic()
            while not all(client.told[each].is_over for each in slow):
                assert client.get("/healthz").status == 200
                assert time.monotonic() - begin < 60
            assert {client.told[each].reset for each in slow} == {ErrorCodes.CANCEL}
            assert time.monotonic() - begin >= CLIENT_SECONDS
            assert peak_memory(strict) - before < 20 * 2 * MB
            box.post("shutdown")

    def test_a_reader_that_takes_little_but_steadily_gets_everything(self, strict: RunningServer) -> None:
        with over_http2(strict) as other, Framed(strict, {4: 4096}) as client:
            box = create(other)
            path = stream_path(box, "head -c 600000 /dev/zero | tr '\\0' x | fold -w 99")
            stream = client.ask("GET", path)
            client.held.add(stream)
            begin, seen = time.monotonic(), 0
            while not client.told[stream].is_over:
                client.pump()
                fresh = len(client.told[stream].body) - seen
                seen += fresh
                if fresh and not client.told[stream].is_over:
                    time.sleep(0.02)
                    client.http.acknowledge_received_data(fresh, stream)
                    client.flush()
            assert time.monotonic() - begin > CLIENT_SECONDS, "too fast to show anything"
            assert client.told[stream].is_ended
            assert output(client.told[stream].body).count("x") == 600_000
            box.post("shutdown")

    def test_a_body_that_never_comes_is_408(self, strict: RunningServer) -> None:
        with Framed(strict) as client:
            stream = client.ask("POST", "/v1/secrets", None, [("content-type", "application/json")])
            client.send(stream, b'{"name": "HALF", "val', is_last=False)
            assert client.answer(stream).status == 408
            assert client.get("/v1/secrets").json["secrets"] == []
            # What is left of it is not waited for either.
            client.until(lambda: client.told[stream].reset is not None, "the end of the stream")
            assert client.told[stream].reset == ErrorCodes.NO_ERROR

    def test_padding_alone_is_no_body(self, strict: RunningServer) -> None:
        with Framed(strict) as client:
            stream = client.ask("POST", "/v1/secrets", None, [("content-type", "application/json")])
            begin = time.monotonic()
            while not client.told[stream].is_over:
                assert time.monotonic() - begin < 30
                client.http.send_data(stream, b"", pad_length=255)
                client.flush()
                client.get("/healthz")
            assert client.told[stream].status == 408

    def test_a_body_that_is_too_large_is_413_also_where_no_length_was_told(
        self, fake_server: RunningServer
    ) -> None:
        def pieces() -> Iterator[bytes]:
            for _ in range(140):
                yield b" " * MB

        with over_http2(fake_server) as client:
            given = {"content-type": "application/json"}
            assert client.post("/v1/secrets", content=pieces(), headers=given).status_code == 413
            assert client.get("/healthz").status_code == 200

    def test_a_body_nobody_wants_does_not_stop_the_others(self, fake_server: RunningServer) -> None:
        with Framed(fake_server) as client:
            unwanted = [client.ask("PUT", "/objects/upload/none", None) for _ in range(40)]
            for each in unwanted:
                client.send(each, b"x" * MB)
            assert {client.answer(each).status for each in unwanted} == {400}
            answer = client.answer(client.post("/v1/secrets", {"name": "WANTED", "value": "x" * 500_000}))
            assert answer.status in (200, 400)


class TestTunnels:
    def test_requests_pass_with_and_without_a_known_length(self, tunnel: Tunnelled) -> None:
        with httpx.Client(base_url=tunnel.devbox.api.base_url, http1=False, http2=True, timeout=30) as client:
            assert client.get(f"{tunnel.path}/some").text == "hello from /some"
            told = echoed(client.post(f"{tunnel.path}/echo?a=%2F", content=b"body"))
            assert (told["method"], told["target"], told["body"]) == ("POST", "/echo?a=%2F", "body")
            told = echoed(client.post(f"{tunnel.path}/echo", content=iter([b"in ", b"pieces"])))
            assert (told["body"], told["headers"]["transfer-encoding"]) == ("in pieces", "chunked")
            assert client.get(f"{tunnel.path}/chunks").text == "chunk 0chunk 1chunk 2"
            answer = client.get("/some", headers={"host": tunnel.host})
            assert (answer.text, answer.http_version) == ("hello from /some", "HTTP/2")

    def test_an_answer_that_is_cut_short_is_not_taken_for_a_whole_one(self, tunnel: Tunnelled) -> None:
        with httpx.Client(base_url=tunnel.devbox.api.base_url, http1=False, http2=True, timeout=30) as client:
            with pytest.raises(httpx.RemoteProtocolError):
                client.get(f"{tunnel.path}/cut")
            assert client.get(f"{tunnel.path}/some").text == "hello from /some"


class TestTheEnd:
    def test_a_connection_without_requests_is_closed_and_one_with_is_not(
        self, fake_server: RunningServer
    ) -> None:
        with over_http2(fake_server) as other, Framed(fake_server) as idle, Framed(fake_server) as busy:
            box = create(other)
            stream = busy.ask("GET", stream_path(box, "sleep 8; echo late"))
            begin = time.monotonic()
            assert idle.get("/healthz").status == 200
            assert idle.ended() == ErrorCodes.NO_ERROR
            assert KEEP_ALIVE_SECONDS - 1 < time.monotonic() - begin < KEEP_ALIVE_SECONDS + 3
            assert output(busy.answer(stream).body) == "late\n"
            box.post("shutdown")

    def test_a_connection_that_never_asks_is_closed(self, strict: RunningServer) -> None:
        with Framed(strict) as client:
            assert client.ended() == ErrorCodes.NO_ERROR

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_stop_says_goodbye_and_lets_requests_finish(
        self, number: signal.Signals, tmp_path: Path
    ) -> None:
        with (
            RunningServer(tmp_path / "data", FAKE) as server,
            Framed(server) as client,
            Framed(server) as idle,
        ):
            made = client.answer(client.post("/v1/objects", {"name": "n", "content_type": "text"})).json
            with over_http2(server) as other:
                followed = client.ask("GET", stream_path(create(other), "sleep 600"))
            upload = client.ask("PUT", path_of(made["upload_url"]), None)
            client.send(upload, b"first ", is_last=False)
            eventually(lambda: open_requests(server) == 2, "both")
            os.kill(server.pid, number)
            assert b"the server is stopping" in client.answer(followed).body
            while (late := client.get("/healthz")).reset is None:
                assert late.status == 200
            assert late.reset == ErrorCodes.REFUSED_STREAM
            client.send(upload, b"second")
            assert client.answer(upload).status == 200
            assert client.ended() == ErrorCodes.NO_ERROR
            assert idle.ended() == ErrorCodes.NO_ERROR
            assert server.wait() == 0
            assert '"trace"' not in server.log
            server.start()

    def test_a_client_that_hears_nothing_after_a_goodbye_gets_its_answers_at_a_stop(
        self, tmp_path: Path
    ) -> None:
        with (
            RunningServer(tmp_path / "data", FAKE) as server,
            over_http2(server) as client,
            ThreadPoolExecutor() as pool,
        ):
            box = create(client)
            path = f"executions/{box.start('sleep 600')}/wait_for_status"
            body = {"statuses": ["completed"], "timeout_seconds": 25}
            waiting = [pool.submit(box.post, path, body) for _ in range(5)]
            eventually(lambda: open_requests(server) == 5, "all of them")
            os.kill(server.pid, signal.SIGTERM)
            answers = [each.result() for each in waiting]
            assert {(each.status_code, each.http_version) for each in answers} == {(408, "HTTP/2")}
            assert server.wait() == 0
            server.start()

    def test_a_request_that_does_not_end_does_not_hold_up_the_stop(self, tmp_path: Path) -> None:
        with RunningServer(tmp_path / "data", FAKE) as server, Framed(server) as client:
            made = client.answer(client.post("/v1/objects", {"name": "n", "content_type": "text"})).json
            client.send(client.ask("PUT", path_of(made["upload_url"]), None), b"first ", is_last=False)
            eventually(lambda: open_requests(server) == 1, "it")
            begin = time.monotonic()
            os.kill(server.pid, signal.SIGTERM)
            assert server.wait() == 0
            assert time.monotonic() - begin < 10
            assert client.ended() is not None


def path_of(url: str) -> str:
    parts = httpx.URL(url)
    return parts.raw_path.decode()


def told_by(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout
