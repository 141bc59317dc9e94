"""Tunnels: HTTP and whatever it is upgraded to, from outside to a port of a devbox."""

import base64
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, create, eventually, good, refusal
from tests.api.tunnelled import Tunnelled, echoed, listening, raw, tunnelled

KEY_DIGITS = 32
LARGE = 64 * 1024**2


@pytest.fixture(scope="module")
def tunnel(server: RunningServer) -> Iterator[Tunnelled]:
    """A tunnel that the tests of this file share, to a devbox with walls."""
    with api_of(server) as client:
        made = tunnelled(create(client))
        yield made
        made.devbox.post("shutdown")


@pytest.fixture
def outside(server: RunningServer) -> Iterator[httpx.Client]:
    """A client without a key."""
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


def api_of(server: RunningServer) -> httpx.Client:
    headers = {"authorization": f"Bearer {server.key}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=40)


def descriptors(server: RunningServer) -> int:
    return len(list(Path(f"/proc/{server.pid}/fd").iterdir()))


class TestRequests:
    def test_by_path_and_by_host_name(self, tunnel: Tunnelled, outside: httpx.Client) -> None:
        assert outside.get(f"{tunnel.path}/some/where").text == "hello from /some/where"
        assert outside.get(tunnel.path).text == "hello from /"
        for host in (tunnel.host, tunnel.host.upper(), f"{tunnel.host}:8443"):
            assert outside.get("/some/where", headers={"host": host}).text == "hello from /some/where"
        # With a tunnel's host name nothing is the API's, whatever key is sent along.
        assert outside.get("/v1/devboxes", headers={"host": tunnel.host}).text == "hello from /v1/devboxes"

    def test_headers_that_reach_the_program(self, tunnel: Tunnelled, outside: httpx.Client) -> None:
        given = {
            "x-own": "kept",
            "connection": "close, x-one-hop",
            "x-one-hop": "dropped",
            "x-forwarded-for": "6.6.6.6",
            "x-forwarded-prefix": "/forged",
            "cookie": "session=ours",
        }
        told = echoed(outside.post(f"{tunnel.path}/echo?a=%2F&b", content=b"body", headers=given))
        assert (told["method"], told["target"], told["body"]) == ("POST", "/echo?a=%2F&b", "body")
        headers = told["headers"]
        assert headers["x-own"] == "kept"
        assert headers["connection"] == "close"
        # On this machine's own loopback a proxy is believed.
        assert headers["x-forwarded-for"] == "6.6.6.6"
        assert headers["x-forwarded-proto"] == "http"
        assert headers["x-forwarded-prefix"] == tunnel.path
        assert (
            headers["host"] == headers["x-forwarded-host"] == httpx.URL(str(outside.base_url)).netloc.decode()
        )
        assert not {"x-one-hop", "cookie"} & set(told["names"])
        by_host = echoed(outside.get("/echo", headers={"host": tunnel.host, "cookie": "session=theirs"}))
        assert by_host["headers"]["cookie"] == "session=theirs"
        assert by_host["headers"]["host"] == tunnel.host
        assert "x-forwarded-prefix" not in by_host["names"]

    def test_a_key_of_this_server_does_not_travel_into_a_devbox(
        self, tunnel: Tunnelled, server: RunningServer, outside: httpx.Client
    ) -> None:
        with api_of(server) as client:
            assert "authorization" not in echoed(client.get(f"{tunnel.path}/echo"))["names"]
        for theirs in ("Bearer of-the-program", "Basic dTpw"):
            told = echoed(outside.get(f"{tunnel.path}/echo", headers={"authorization": theirs}))
            assert told["headers"]["authorization"] == theirs

    def test_pages_by_path_cannot_pass_for_the_servers_own(
        self, tunnel: Tunnelled, outside: httpx.Client
    ) -> None:
        by_path = outside.get(f"{tunnel.path}/echo")
        assert by_path.headers["content-security-policy"].startswith("sandbox ")
        assert "allow-same-origin" not in by_path.headers["content-security-policy"]
        assert "set-cookie" not in by_path.headers
        by_host = outside.get("/echo", headers={"host": tunnel.host})
        assert by_host.headers["set-cookie"] == "a=b"
        assert "content-security-policy" not in by_host.headers

    @pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
    def test_every_method(self, tunnel: Tunnelled, outside: httpx.Client, method: str) -> None:
        if method == "HEAD":
            answer = outside.head(f"{tunnel.path}/some")
            assert (answer.status_code, answer.headers["content-length"]) == (200, "16")
        else:
            told = echoed(outside.request(method, f"{tunnel.path}/echo"))
            assert told["method"] == method

    def test_chunks_both_ways(self, tunnel: Tunnelled, outside: httpx.Client) -> None:
        told = echoed(outside.post(f"{tunnel.path}/echo", content=iter([b"one ", b"two"])))
        assert told["body"] == "one two"
        assert told["headers"]["transfer-encoding"] == "chunked"
        assert "content-length" not in told["names"]
        answer = outside.get(f"{tunnel.path}/chunks")
        assert answer.text == "chunk 0chunk 1chunk 2"

    def test_a_stream_of_events_arrives_as_it_comes(self, tunnel: Tunnelled, outside: httpx.Client) -> None:
        tunnel.devbox.run("rm -f note.go")
        with outside.stream("GET", f"{tunnel.path}/events") as answer:
            lines = answer.iter_lines()
            assert next(lines) == "data: first"
            tunnel.devbox.run("touch note.go")
            assert [line for line in lines if line] == ["data: second"]

    def test_large_both_ways(self, tunnel: Tunnelled, server: RunningServer, outside: httpx.Client) -> None:
        before = resident(server)
        content = (b"y" * 1024**2 for _ in range(64))
        sized = {"content-length": str(LARGE)}
        told = echoed(outside.put(f"{tunnel.path}/echo", content=content, headers=sized))
        assert told["body"].endswith(f" {LARGE}")
        with outside.stream("GET", f"{tunnel.path}/large?{LARGE}") as answer:
            assert sum(map(len, answer.iter_raw())) == LARGE
        assert resident(server) - before < LARGE // 2

    def test_a_slow_reader_holds_the_program_back(self, tunnel: Tunnelled, server: RunningServer) -> None:
        before = resident(server)
        request = f"GET {tunnel.path}/large?{LARGE} HTTP/1.1\r\nhost: x\r\n\r\n"
        with raw(server.url) as connection:
            connection.sendall(request.encode())
            connection.recv(1)
            sent = 0
            while sent != (now := int(tunnel.devbox.run("cat note.sent")["stdout"] or 0)):
                sent = now
                time.sleep(0.5)
            assert sent < LARGE
            assert resident(server) - before < LARGE // 2

    def test_an_answer_before_the_end_of_the_request(self, tunnel: Tunnelled, outside: httpx.Client) -> None:
        assert outside.post(f"{tunnel.path}/early", content=b"x" * 10).status_code == 413

    def test_a_client_that_leaves_is_told_to_the_program(
        self, tunnel: Tunnelled, outside: httpx.Client
    ) -> None:
        tunnel.devbox.run("rm -f note.left")
        with outside.stream("GET", f"{tunnel.path}/left") as answer:
            assert next(answer.iter_raw()) == b"begun"
        eventually(lambda: tunnel.devbox.run("ls note.left")["exit_status"] == 0, "the program to be told")


def resident(server: RunningServer) -> int:
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class TestUpgrades:
    @pytest.mark.parametrize("size", [0, 5, 1000, 100_000, 2 * 1024**2])
    def test_a_websocket_carries_frames(self, tunnel: Tunnelled, server: RunningServer, size: int) -> None:
        url = "ws" + server.url.removeprefix("http")
        with connect(
            f"{url}{tunnel.path}/socket", compression=None, max_size=None, close_timeout=0.5
        ) as socket_:
            for text in ("first", "x" * size):
                socket_.send(text)
                assert socket_.recv(timeout=30) == text

    def test_a_websocket_by_host_name(self, tunnel: Tunnelled, server: RunningServer) -> None:
        address = httpx.URL(server.url)
        with (
            socket.create_connection((address.host, address.port or 80), timeout=30) as connection,
            connect(
                f"ws://{tunnel.host}/socket", sock=connection, compression=None, close_timeout=0.5
            ) as socket_,
        ):
            socket_.send(b"bytes")
            assert socket_.recv(timeout=30) == b"bytes"

    def test_any_other_protocol_with_what_is_sent_early_and_half_closed(
        self, tunnel: Tunnelled, server: RunningServer
    ) -> None:
        head = f"GET {tunnel.path}/pipe HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: pipe\r\n\r\n"
        with raw(server.url) as connection:
            connection.sendall(head.encode() + b"early, ")
            connection.sendall(b"later")
            connection.shutdown(socket.SHUT_WR)
            told = everything(connection)
        assert told.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
        assert told.endswith(b"\r\n\r\nEARLY, LATER THE END")

    def test_a_program_that_does_not_want_to(self, tunnel: Tunnelled, server: RunningServer) -> None:
        head = f"GET {tunnel.path}/no HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: pipe\r\n\r\n"
        smuggled = b"GET /v1/devboxes HTTP/1.1\r\nhost: x\r\n\r\n"
        with raw(server.url) as connection:
            connection.sendall(head.encode() + smuggled)
            told = everything(connection)
        assert told.startswith(b"HTTP/1.1 200 ")
        assert told.endswith(b"hello from /no")
        assert told.count(b"HTTP/1.1") == 1

    def test_a_protocol_that_nobody_asked_for(self, tunnel: Tunnelled, outside: httpx.Client) -> None:
        switch = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"
        answer = outside.get(f"{tunnel.path}/raw?{switch.hex()}")
        refusal(answer, 502)

    def test_the_tunnel_closes_under_an_open_socket(self, server: RunningServer) -> None:
        with api_of(server) as client:
            made = tunnelled(create(client))
            head = f"GET {made.path}/pipe HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: p\r\n\r\n"
            with raw(server.url) as connection:
                connection.sendall(head.encode())
                assert connection.recv(4096).startswith(b"HTTP/1.1 101 ")
                good(made.devbox.post("remove_tunnel"))
                assert ended(connection)
            made.devbox.post("shutdown")


def everything(connection: socket.socket) -> bytes:
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return received


def ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


class TestWhoMayEnter:
    def test_an_unknown_key_is_not_found_whatever_is_wrong_with_it(
        self, tunnel: Tunnelled, outside: httpx.Client
    ) -> None:
        key, port = tunnel.view["tunnel_key"], tunnel.port
        wrong = "0" * KEY_DIGITS
        told = set()
        for path in (
            f"/tunnel/{wrong}/{port}/",
            f"/tunnel/{key[:-1]}/{port}/",
            f"/tunnel/{key}x/{port}/",
            f"/tunnel/{key.upper()}/{port}/",
            f"/tunnel/{key}/0/",
            f"/tunnel/{key}/65536/",
            f"/tunnel/{key}/0{port}/",
            f"/tunnel/{key}/port/",
            f"/tunnel/{key}/",
            f"/tunnel/{key}",
            "/tunnel/",
            "/tunnel",
            f"/tunnel//{port}/",
            f"/tunnel/%00/{port}/",
        ):
            told.add(refusal(outside.get(path), 404))
        for host in (f"{port}-{wrong}.tunnel.yard.test", f"0-{key}.tunnel.yard.test"):
            told.add(refusal(outside.get("/", headers={"host": host}), 404))
        assert told == {"there is no such tunnel"}

    def test_an_authenticated_tunnel_needs_its_token(
        self, server: RunningServer, outside: httpx.Client
    ) -> None:
        with api_of(server) as client:
            made = tunnelled(create(client), auth_mode="authenticated")
            token = made.view["auth_token"]
            assert made.devbox.view()["tunnel"]["auth_token"] == token
            refused: list[dict[str, Any]] = [
                {},
                {"authorization": token},
                {"authorization": f"Bearer {server.key}"},
                {"x-runloop-tunnel-authorization": token},
                {"x-runloop-tunnel-authorization": f"Bearer {token}x"},
                {"x-runloop-tunnel-authorization": f"Bearer {server.key}"},
                {"x-runloop-tunnel-authorization": "Bearer ü".encode("latin-1")},
            ]
            for given in refused:
                refusal(outside.get(f"{made.path}/echo", headers=given), 401)
            own, theirs = "X-Runloop-Tunnel-Authorization", {"authorization": "Bearer of-the-program"}
            for name in (own, "X-Benchyard-Tunnel-Authorization", "Authorization"):
                for at in ({}, {"host": made.host}):
                    path = "/echo" if at else f"{made.path}/echo"
                    told = echoed(outside.get(path, headers={name: f"Bearer {token}", **at}))
                    assert token not in str(told)
            # What the program asks for passes, where the tunnel's token has a header of its own.
            told = echoed(outside.get(f"{made.path}/echo", headers={own: f"Bearer {token}", **theirs}))
            assert told["headers"]["authorization"] == theirs["authorization"]
            socket_url = f"ws://{httpx.URL(server.url).netloc.decode()}{made.path}/socket"
            bearer = {"Authorization": f"Bearer {token}"}
            with connect(socket_url, additional_headers=bearer, proxy=None) as socket:
                socket.send("by either header")
                assert socket.recv(timeout=20) == "by either header"
            made.devbox.post("shutdown")

    def test_enabling_again_returns_the_same_tunnel_unless_the_mode_changes(
        self, server: RunningServer, outside: httpx.Client
    ) -> None:
        with api_of(server) as client:
            devbox = create(client, tunnel={})
            first = devbox.view()["tunnel"]
            assert (first["auth_mode"], first["http_keep_alive"], first["wake_on_http"]) == (
                "open",
                True,
                False,
            )
            assert first["auth_token"] is None
            assert good(devbox.post("enable_tunnel", {"auth_mode": "open"})) == first
            woken = good(devbox.post("enable_tunnel", {"wake_on_http": True, "http_keep_alive": False}))
            assert woken == {**first, "wake_on_http": True, "http_keep_alive": False}
            changed = good(devbox.post("enable_tunnel", {"auth_mode": "authenticated"}))
            assert changed["tunnel_key"] != first["tunnel_key"]
            refusal(outside.get(f"/tunnel/{first['tunnel_key']}/80/"), 404)
            assert good(devbox.post("remove_tunnel")) == good(devbox.post("remove_tunnel")) == {}
            assert devbox.view()["tunnel"] is None
            renewed = good(devbox.post("enable_tunnel"))
            assert renewed["tunnel_key"] not in (first["tunnel_key"], changed["tunnel_key"])
            devbox.post("shutdown")
            assert devbox.view()["tunnel"] is None
            refusal(outside.get(f"/tunnel/{renewed['tunnel_key']}/80/"), 404)
            refusal(devbox.post("enable_tunnel"), 400)
            assert good(devbox.post("remove_tunnel")) == {}

    def test_bad_requests(self, server: RunningServer) -> None:
        with api_of(server) as client:
            refusal(client.post("/v1/devboxes/dbx_none/enable_tunnel"), 404)
            refusal(client.post("/v1/devboxes/dbx_none/remove_tunnel"), 404)
            bodies: list[Any] = [{"auth_mode": "closed"}, {"wake_on_http": "yes"}, {"http_keep_alive": 1}, []]
            for wrong in bodies:
                refusal(client.post("/v1/devboxes/dbx_none/enable_tunnel", json=wrong), 400)
            refusal(client.post("/v1/devboxes", json={"tunnel": {"auth_mode": "closed"}}), 400)


class TestFailures:
    def test_nothing_listens(self, tunnel: Tunnelled, outside: httpx.Client) -> None:
        key = tunnel.view["tunnel_key"]
        assert "port 9 " in refusal(outside.get(f"/tunnel/{key}/9/"), 502)
        # What listens on the machine is not the devbox's.
        port = httpx.URL(str(outside.base_url)).port
        assert str(port) in refusal(outside.get(f"/tunnel/{key}/{port}/healthz"), 502)

    @pytest.mark.parametrize(
        "answer",
        [
            b"",
            b"not http\r\n\r\n",
            b"HTTP/1.1 999 Beyond\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
            b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nx: a\x01b\r\ncontent-length: 0\r\n\r\n",
        ],
        ids=["none", "not-http", "status", "two-lengths", "negative", "coding", "control"],
    )
    def test_an_answer_that_cannot_be_passed_on(
        self, tunnel: Tunnelled, outside: httpx.Client, answer: bytes
    ) -> None:
        assert str(tunnel.port) in refusal(outside.get(f"{tunnel.path}/raw?{answer.hex()}"), 502)

    def test_a_head_without_end(self, tunnel: Tunnelled, outside: httpx.Client) -> None:
        assert str(tunnel.port) in refusal(outside.get(f"{tunnel.path}/endless"), 502)

    def test_an_answer_that_is_cut_short_is_not_taken_for_a_whole_one(
        self, tunnel: Tunnelled, outside: httpx.Client
    ) -> None:
        with pytest.raises(httpx.RemoteProtocolError):
            outside.get(f"{tunnel.path}/cut")
        broken = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel"
        with pytest.raises(httpx.RemoteProtocolError):
            outside.get(f"{tunnel.path}/raw?{broken.hex()}")

    @pytest.mark.parametrize("status", [204, 304])
    def test_answers_without_a_body(self, tunnel: Tunnelled, outside: httpx.Client, status: int) -> None:
        answer = b"HTTP/1.1 %d X\r\ncontent-length: 5\r\netag: t\r\n\r\n" % status
        told = outside.get(f"{tunnel.path}/raw?{answer.hex()}")
        assert (told.status_code, told.headers["etag"], told.content) == (status, "t", b"")

    @pytest.mark.parametrize(
        "request_",
        [
            b"GET %b/ HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
            b"TRACE %b/ HTTP/1.1\r\nhost: a\r\n\r\n",
            b"POST %b/ HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
            b"POST %b/ HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
            b"POST %b/ HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
            b"GET %b/ HTTP/1.1\r\nhost: a\r\nx : y\r\n\r\n",
        ],
        ids=["two-hosts", "trace", "length-and-coding", "two-lengths", "coding", "space"],
    )
    def test_requests_that_could_mean_two_things_are_not_passed_on(
        self, tunnel: Tunnelled, server: RunningServer, request_: bytes
    ) -> None:
        with raw(server.url) as connection:
            connection.sendall(request_ % tunnel.path.encode())
            connection.shutdown(socket.SHUT_WR)
            told = everything(connection)
        assert told == b"" or told.split(b" ", 2)[1] in (b"400", b"405"), told

    def test_a_crowded_tunnel_says_so(self, tunnel: Tunnelled, server: RunningServer) -> None:
        connections = []
        try:
            for _ in range(128):
                address = httpx.URL(server.url)
                connections.append(socket.create_connection((address.host, address.port or 80), timeout=30))
                connections[-1].sendall(f"GET {tunnel.path}/silent HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            with httpx.Client(base_url=server.url, timeout=30) as client:
                eventually(lambda: client.get(f"{tunnel.path}/x").status_code == 429, "a refusal")
        finally:
            for connection in connections:
                connection.close()
        with httpx.Client(base_url=server.url, timeout=30) as client:
            eventually(lambda: client.get(f"{tunnel.path}/x").status_code == 200, "room again")


class TestLife:
    def test_suspended_woken_and_idle(self, server: RunningServer, outside: httpx.Client) -> None:
        with api_of(server) as client:
            devbox = create(client, tunnel={})
            path = f"/tunnel/{devbox.view()['tunnel']['tunnel_key']}/80/"
            good(devbox.post("suspend"))
            devbox.reaches("suspended")
            asleep = outside.get(path)
            assert "suspended" in refusal(asleep, 503)
            assert "retry-after" not in asleep.headers
            assert devbox.view()["status"] == "suspended"
            good(devbox.post("enable_tunnel", {"wake_on_http": True}))
            woken = outside.get(path)
            refusal(woken, 503)
            assert woken.headers["retry-after"] == "5"
            devbox.reaches("running")
            port = listening(devbox)
            assert outside.get(path.replace("/80/", f"/{port}/here")).text == "hello from /here"
            devbox.post("shutdown")

    def test_launch_parameters_decide_what_wakes(self, server: RunningServer) -> None:
        with api_of(server) as client:
            launch = {"lifecycle": {"resume_triggers": {"http": True}}}
            devbox = create(client, tunnel={"wake_on_http": False}, launch_parameters=launch)
            assert devbox.view()["tunnel"]["wake_on_http"] is True
            devbox.post("shutdown")

    @pytest.mark.parametrize("keeps", [True, False])
    def test_requests_count_as_use_unless_told_otherwise(
        self, server: RunningServer, outside: httpx.Client, keeps: bool
    ) -> None:
        idle = {"after_idle": {"idle_time_seconds": 2, "on_idle": "shutdown"}}
        with api_of(server) as client:
            devbox = create(client, tunnel={"http_keep_alive": keeps}, launch_parameters=idle)
            path = f"/tunnel/{devbox.view()['tunnel']['tunnel_key']}/9/"
            deadline = time.monotonic() + 6
            while time.monotonic() < deadline and outside.get(path).status_code == 502:
                time.sleep(0.1)
            assert (outside.get(path).status_code == 502) is keeps
            devbox.post("shutdown")

    def test_a_tunnel_outlives_a_killed_server(self, tmp_path: Path) -> None:
        with RunningServer(tmp_path / "data") as running:
            with api_of(running) as client:
                made = tunnelled(create(client), auth_mode="authenticated")
                token = {"x-runloop-tunnel-authorization": f"Bearer {made.view['auth_token']}"}
                running.kill()
                running.start()
                assert client.get(f"/v1/devboxes/{made.devbox.id}").json()["tunnel"] == made.view
            with httpx.Client(base_url=running.url, timeout=30) as outside:
                assert outside.get(f"{made.path}/still", headers=token).text == "hello from /still"

    def test_nothing_is_left_of_a_passage(self, tunnel: Tunnelled, server: RunningServer) -> None:
        with httpx.Client(base_url=server.url, timeout=30) as outside:
            outside.get(f"{tunnel.path}/first")
            before = descriptors(server)
            for _ in range(20):
                outside.get(f"{tunnel.path}/again")
                refusal(outside.get(f"/tunnel/{tunnel.view['tunnel_key']}/9/"), 502)
                with raw(server.url) as connection:
                    connection.sendall(f"GET {tunnel.path}/silent HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            eventually(lambda: descriptors(server) <= before, "all descriptors to be closed")

    def test_neither_log_nor_metrics_tell_keys_paths_and_tokens(
        self, tunnel: Tunnelled, server: RunningServer, outside: httpx.Client
    ) -> None:
        token = base64.b64encode(os.urandom(12)).decode()
        headers = {"x-runloop-tunnel-authorization": f"Bearer {token}"}
        outside.get(f"{tunnel.path}/private-path?private=query", headers=headers)
        outside.get("/private-path", headers={"host": tunnel.host, **headers})
        with api_of(server) as client:
            told = client.get("/metrics").text + server.log
        assert 'route="/tunnel/{tunnel_key}/{port}/{path}"' in told
        for secret in (tunnel.view["tunnel_key"], "private", token):
            assert secret not in told


def test_a_devbox_without_walls_shares_the_machines_ports(fake_server: RunningServer) -> None:
    with api_of(fake_server) as client:
        devbox: DevboxOverHttp = create(client, tunnel={})
        key = devbox.view()["tunnel"]["tunnel_key"]
        with httpx.Client(base_url=fake_server.url, timeout=30) as outside:
            port = httpx.URL(fake_server.url).port
            assert outside.get(f"/tunnel/{key}/{port}/healthz").status_code == 200
        devbox.post("shutdown")
