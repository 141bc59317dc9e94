"""The gateway's own process: it outlives who started it, keeps its counts, tells no secret, ends itself."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from benchyard.errors import BenchyardError, Conflict, NotFound, UsageError
from benchyard.gateway import protocol
from benchyard.gateway.client import Gateway
from benchyard.gateway.grants import Grant, GrantBudget, Upstream
from benchyard.gateway.protocol import GatewayOptions
from tests.gateway.station import KEY, TOKEN, Behind, eventually, live, message


class Yard:
    """A gateway process, a socket as a devbox would keep it, and an upstream."""

    def __init__(self, folder: Path, gateway: Gateway, behind: Behind) -> None:
        self.folder = folder
        self.gateway = gateway
        self.behind = behind
        self.listener = socket.create_server(("127.0.0.1", 0))

    def grant(self, **changes: Any) -> Grant:
        upstream = Upstream(self.behind.url, "x-api-key", "", KEY, prices="anthropic")
        given: dict[str, Any] = {
            "id": "trial",
            "token": TOKEN,
            "devbox_id": "box",
            "upstreams": {"anthropic": upstream},
            "expires_ms": round(time.time() * 1000) + 3_600_000,
        }
        return Grant(**{**given, **changes})

    async def begin(self) -> None:
        await self.gateway.grant(self.grant())
        await self.gateway.listen("box", self.listener.fileno())

    async def ask(self, token: str = TOKEN) -> int:
        url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/anthropic/v1/messages"
        body = b'{"model": "claude-sonnet-4-5", "messages": []}'
        async with (
            aiohttp.ClientSession() as agent,
            agent.post(url, data=body, headers={"x-api-key": token}) as reply,
        ):
            await reply.read()
            return reply.status

    async def pid(self) -> int:
        return int((await self.gateway.status())["pid"])


@asynccontextmanager
async def a_yard(folder: Path, options: GatewayOptions | None = None) -> AsyncIterator[Yard]:
    behind = Behind()
    await behind.open()
    gateway = Gateway(folder, options)
    await gateway.open()
    yard = Yard(folder, gateway, behind)
    try:
        yield yard
    finally:
        yard.listener.close()
        await gateway.stop()
        await behind.close()


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@live
async def test_it_is_found_after_its_socket_was_removed(tmp_path: Path) -> None:
    async with a_yard(tmp_path / "gateway") as yard:
        await yard.begin()
        before = (await yard.gateway.status())["instance"]
        (yard.folder / protocol.SOCKET).unlink()
        await yard.gateway.close()
        await yard.gateway.open()
        status = await yard.gateway.status()
        assert (status["instance"], status["grants"]) == (before, ["trial"])
        assert await yard.ask() == 200


@live
async def test_it_serves_a_devbox_and_reports_the_usage(tmp_path: Path) -> None:
    async with a_yard(tmp_path / "gateway") as yard:
        await yard.begin()
        assert await yard.ask() == 200
        spent = await yard.gateway.spent("trial")
        assert (spent.calls, spent.usage.total_tokens) == (1, 15)
        status = await yard.gateway.status()
        assert (status["grants"], status["devboxes"]) == (["trial"], ["box"])
        assert status["version"] == protocol.VERSION
        with pytest.raises(Conflict):
            await yard.gateway.forget("trial")
        assert await yard.gateway.revoke("trial") == spent
        assert await yard.gateway.revoke("trial") == spent
        assert await yard.ask() == 401
        assert [call.response for call in yard.gateway.calls("trial")] == [message()]
        await yard.gateway.forget("trial")
        with pytest.raises(NotFound):
            await yard.gateway.spent("trial")
        await yard.gateway.unlisten("box")
        assert (await yard.gateway.status())["devboxes"] == []


@live
async def test_invalid_grant_is_refused(tmp_path: Path) -> None:
    async with a_yard(tmp_path / "gateway") as yard:
        with pytest.raises(UsageError, match="not an id"):
            await yard.gateway.grant(yard.grant(id="../up"))
        with pytest.raises(UsageError, match="16 characters"):
            await yard.gateway.grant(yard.grant(token="short"))
        with pytest.raises(UsageError, match="does not know"):
            await yard.gateway.ask({"op": "dance"})
        with pytest.raises(UsageError, match="does not understand"):
            await yard.gateway.ask({"op": "grant", "grant": {"id": 5}})
        with pytest.raises(UsageError, match="listening"), socket.socket() as quiet:
            await yard.gateway.listen("box", quiet.fileno())
        end_of_pipe, other_end = os.pipe()
        with pytest.raises(UsageError, match="listening"):
            await yard.gateway.listen("box", end_of_pipe)
        os.close(end_of_pipe)
        os.close(other_end)
        await yard.gateway.grant(yard.grant())
        with pytest.raises(Conflict, match="another grant"):
            await yard.gateway.grant(yard.grant(id="second"))


@live
async def test_a_grant_given_again_is_replaced_and_keeps_its_count(tmp_path: Path) -> None:
    async with a_yard(tmp_path / "gateway") as yard:
        await yard.begin()
        assert await yard.ask() == 200
        renewed = yard.grant(token="another-token-of-it", budget=GrantBudget(requests=1))
        assert (await yard.gateway.grant(renewed)).calls == 1
        assert await yard.ask() == 401
        assert await yard.ask("another-token-of-it") == 402


@live
async def test_the_same_socket_sent_again_breaks_nothing_off(tmp_path: Path) -> None:
    async with a_yard(tmp_path / "gateway") as yard:
        go_on = asyncio.Event()

        async def answer(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
            await go_on.wait()
            return web.json_response(message())

        yard.behind.answer = answer
        await yard.begin()
        asked = asyncio.create_task(yard.ask())
        await eventually(lambda: yard.behind.seen, "it is under way")
        await yard.begin()
        go_on.set()
        assert await asked == 200


@live
async def test_it_outlives_who_started_it(tmp_path: Path) -> None:
    """The server is killed; the gateway goes on serving, and the next server finds the same one."""
    starter = (
        "import asyncio, os, sys\nfrom pathlib import Path\nfrom benchyard.gateway.client import Gateway\n"
        "async def main():\n    gateway = Gateway(Path(sys.argv[1]))\n    await gateway.open()\n"
        "    print((await gateway.status())['pid'], flush=True)\n    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    folder = tmp_path / "gateway"
    ended = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", starter, str(folder)], capture_output=True, text=True
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    async with a_yard(folder) as yard:
        pid = await yard.pid()
        assert pid == int(ended.stdout)
        assert os.getsid(pid) == pid != os.getsid(0)
        await yard.begin()
        await yard.gateway.close()
        assert await yard.ask() == 200
        await yard.gateway.open()
        assert await yard.pid() == pid
        assert (await yard.gateway.spent("trial")).calls == 1


@live
async def test_killed_it_is_started_again_and_what_was_used_is_kept(tmp_path: Path) -> None:
    async with a_yard(tmp_path / "gateway") as yard:
        restarts: list[int] = []

        async def on_restart() -> None:
            restarts.append(await yard.pid())
            await yard.begin()

        yard.gateway._on_restart = on_restart
        await yard.begin()
        assert await yard.ask() == 200
        before = await yard.gateway.spent("trial")

        async def hang(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
            await asyncio.Event().wait()
            raise AssertionError

        well, yard.behind.answer = yard.behind.answer, hang
        asked = asyncio.create_task(yard.ask())
        await eventually(lambda: len(yard.behind.seen) == 2, "one is under way")
        file = protocol.record_file(yard.folder, "trial")
        await eventually(lambda: len(list(yard.gateway.calls("trial"))) == 2, f"{file} has it")
        pid = await yard.pid()
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(aiohttp.ClientError):
            await asked
        yard.behind.answer = well
        # Whoever asks now waits in the devbox's own socket until it is served again.
        assert await yard.ask() == 200
        assert restarts == [await yard.pid()]
        assert restarts != [pid]
        spent = await yard.gateway.revoke("trial")
        assert spent.calls == 3
        assert spent.usage == before.usage + before.usage
        assert [call.error for call in yard.gateway.calls("trial")] == [None, "interrupted", None]


@live
async def test_there_is_one_per_folder(tmp_path: Path) -> None:
    folder = tmp_path / "gateway"
    gateways = [Gateway(folder) for _ in range(4)]
    await asyncio.gather(*(gateway.open() for gateway in gateways))
    assert len({(await gateway.status())["pid"] for gateway in gateways}) == 1
    for gateway in gateways[1:]:
        await gateway.close()
    await gateways[0].stop()
    # There is nothing left to be stopped, and nothing is started for that.
    await gateways[0].stop()


@live
async def test_it_ends_when_it_is_no_longer_needed(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "gateway", GatewayOptions(lease_seconds=0.5))
    await gateway.open()
    pid = (await gateway.status())["pid"]
    expires = round(time.time() * 1000) + 1500
    await gateway.grant(Grant("trial", TOKEN, "box", {}, expires))
    await gateway.close()
    await eventually(lambda: not is_alive(pid), "it ends")
    assert time.time() * 1000 >= expires, "not before its grant has expired"


@live
async def test_call_of_an_expired_grant_is_cut(tmp_path: Path) -> None:
    async with a_yard(tmp_path / "gateway") as yard:

        async def hang(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
            await asyncio.Event().wait()
            raise AssertionError

        yard.behind.answer = hang
        await yard.begin()
        asked = asyncio.create_task(yard.ask())
        await eventually(lambda: yard.behind.seen, "it is under way")
        await yard.gateway.grant(yard.grant(expires_ms=round(time.time() * 1000)))
        with pytest.raises(aiohttp.ClientError):
            await asked
        assert await yard.ask() == 401
        assert (await yard.gateway.spent("trial")).last_error == "the token expired"
        assert (await yard.gateway.status())["grants"] == []


@live
async def test_no_secret_is_where_others_could_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    async with a_yard(tmp_path / "gateway") as yard:
        await yard.begin()
        assert await yard.ask() == 200
        assert await yard.ask("some-wrong-token-of-mine") == 401
        pid = await yard.pid()
        await yard.gateway.revoke("trial")
        places = [Path(f"/proc/{pid}/environ"), Path(f"/proc/{pid}/cmdline")]
        places += [path for path in yard.folder.rglob("*") if path.is_file()]
        assert protocol.record_file(yard.folder, "trial") in places
        for place in places:
            content = place.read_bytes()
            for secret in (KEY, TOKEN, "some-wrong-token-of-mine"):
                assert secret.encode() not in content, place
        assert b"grant trial" in (yard.folder / protocol.LOG).read_bytes()
        assert yard.folder.stat().st_mode & 0o777 == 0o700
        for path in yard.folder.rglob("*"):
            assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to be somebody else")
@live
async def test_only_the_same_user_is_answered(tmp_path: Path) -> None:
    program = (
        "import os, socket, sys\nfrom pathlib import Path\nfrom benchyard.gateway import protocol\n"
        # As if the modes of the folder and of the socket kept nobody out.
        "os.chdir(sys.argv[1])\nos.chmod('.', 0o755)\nos.chmod('control.sock', 0o666)\n"
        "os.setuid(int(sys.argv[2]))\n"
        "with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:\n"
        "    sock.connect('control.sock')\n    sock.settimeout(60)\n"
        '    sock.send(b\'{"id": 1, "op": "status"}\')\n    print(sock.recv(1000))\n'
    )
    async with a_yard(tmp_path / "gateway") as yard:
        said = {}
        for user in ("0", "65534"):
            ended = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-c", program, str(yard.folder), user],
                capture_output=True,
                text=True,
            )
            said[user] = ended.stdout + ended.stderr
        assert "grants" in said["0"]
        assert "grants" not in said["65534"]
        assert "Permission" not in said["65534"]


@live
async def test_gateway_that_cannot_start_raises_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BenchyardError):
        await Gateway(tmp_path / "file").open()


@live
async def test_a_grant_that_has_expired_is_good_again_once_it_is_given_again(tmp_path: Path) -> None:
    async with a_yard(tmp_path / "gateway") as yard:

        async def hang(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
            await asyncio.Event().wait()
            raise AssertionError

        good, yard.behind.answer = yard.behind.answer, hang
        await yard.begin()
        asked = asyncio.create_task(yard.ask())
        await eventually(lambda: yard.behind.seen, "it is under way")
        await yard.gateway.grant(yard.grant(expires_ms=round(time.time() * 1000)))
        with pytest.raises(aiohttp.ClientError):
            await asked
        yard.behind.answer = good
        await yard.gateway.grant(yard.grant())
        assert await yard.ask() == 200


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to look at what the gateway holds")
@live
async def test_a_socket_that_is_sent_twice_at_once_is_let_go_of_once_it_is_not_served(tmp_path: Path) -> None:
    async with a_yard(tmp_path / "gateway") as yard:
        await yard.gateway.grant(yard.grant())
        with socket.create_server(("127.0.0.1", 0)) as before:
            # Closing what the devbox had before takes a while.
            await yard.gateway.listen("box", before.fileno())
        fileno = yard.listener.fileno()
        await asyncio.gather(*(yard.gateway.listen("box", fileno) for _ in range(8)))
        assert await yard.ask() == 200
        held = os.fstat(fileno).st_ino
        folder = Path(f"/proc/{await yard.pid()}/fd")
        await yard.gateway.unlisten("box")
        kept = [each for each in folder.iterdir() if each.readlink().name.endswith(f"[{held}]")]
        assert kept == []
