"""Grants of a server with a gateway process of its own: none outlives whoever it was for."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchyard.engine.network.gateway_access import Grants
from benchyard.engine.network.gateway_doors import GrantedDoors
from benchyard.errors import DevboxGone
from benchyard.gateway import protocol
from benchyard.gateway.client import Gateway, is_running
from benchyard.gateway.grants import Grant, Upstream
from benchyard.store.vault import Vault
from tests.gateway.station import eventually, live


class Loopback:
    """Doors of devboxes: each has one socket, as long as it runs."""

    def __init__(self) -> None:
        self.sockets: dict[str, socket.socket] = {}
        self.gone: set[str] = set()
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def open(self, devbox_id: str, _port: int) -> tuple[int, int]:
        self.asked.set()
        await self.go_on.wait()
        if devbox_id in self.gone:
            raise DevboxGone(f"devbox {devbox_id} is gone")
        if devbox_id not in self.sockets:
            self.sockets[devbox_id] = socket.create_server(("127.0.0.1", 0))
        listener = self.sockets[devbox_id]
        return os.dup(listener.fileno()), listener.getsockname()[1]

    def close(self) -> None:
        for each in self.sockets.values():
            each.close()


class Yard:
    """What servers have in common that follow each other on one data folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "gateway"
        self.inside = Loopback()

    def server(self) -> Grants:
        return Grants(cast("Any", SimpleNamespace(doors=self.inside)), self.folder, 60)

    async def kill_server(self, grants: Grants) -> None:
        """Let go of the gateway as a server does that is killed: nothing is told."""
        await grants._gateway.close()

    async def status(self) -> dict[str, Any]:
        looking = Gateway(self.folder)
        await looking.open()
        try:
            return await looking.status()
        finally:
            await looking.close()


@asynccontextmanager
async def a_yard(folder: Path) -> AsyncIterator[Yard]:
    yard = Yard(folder)
    try:
        yield yard
    finally:
        await Gateway(yard.folder).stop()
        yard.inside.close()


def a_grant(id: str = "trl_1", devbox_id: str = "box", **changes: Any) -> Grant:
    expires_ms = round(time.time() * 1000) + 3_600_000
    return Grant(id, f"token-of-{id}-0123456789", devbox_id, {}, expires_ms, **changes)


@live
async def test_grant_of_an_earlier_server_is_ended_with_its_door(tmp_path: Path) -> None:
    async with a_yard(tmp_path) as yard:
        first = yard.server()
        await first.open(a_grant())
        await yard.kill_server(first)
        async with yard.server() as second:
            assert second.knows("trl_1")
            assert (await second.close("trl_1")).calls == 0
            status = await yard.status()
            assert (status["grants"], status["devboxes"]) == ([], [])


@live
async def test_unused_grants_and_doors_of_an_earlier_server_are_cleared(tmp_path: Path) -> None:
    """Grants of trials that are over, doors of devboxes that are gone, and nothing else."""
    async with a_yard(tmp_path) as yard:
        first = yard.server()
        for id, devbox_id in [("trl_over", "box1"), ("trl_goes_on", "box2"), ("door-1", "gone")]:
            await first.open(a_grant(id, devbox_id))
        with socket.create_server(("127.0.0.1", 0)) as lonely:
            await first._gateway.listen("nobody", lonely.fileno())
        await yard.kill_server(first)
        async with yard.server() as second:
            await second.clear({"trl_goes_on"}, {"box1", "box2"})
            status = await yard.status()
            assert (status["grants"], status["devboxes"]) == (["trl_goes_on"], ["box2"])


@live
async def test_a_grant_that_was_cut_short_can_be_closed(tmp_path: Path) -> None:
    """A job is cancelled in the moment in which its trial gets its token."""
    async with a_yard(tmp_path) as yard, yard.server() as grants:
        told = asyncio.Event()
        sent = grants._gateway.grant

        async def slow(grant: Grant) -> Any:
            await sent(grant)
            told.set()
            await asyncio.Event().wait()

        grants._gateway.grant = slow  # type: ignore[method-assign]
        opening = asyncio.create_task(grants.open(a_grant()))
        await told.wait()
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        assert (await yard.status())["grants"] == ["trl_1"]
        assert grants.knows("trl_1")
        await grants.close("trl_1")
        status = await yard.status()
        assert (status["grants"], status["devboxes"]) == ([], [])


@live
async def test_a_grant_that_the_gateway_never_heard_of_can_be_closed(tmp_path: Path) -> None:
    async with a_yard(tmp_path) as yard, yard.server() as grants:
        yard.inside.gone.add("box")
        with pytest.raises(DevboxGone):
            await grants.open(a_grant())
        assert (await grants.close("trl_1")).calls == 0
        assert not grants.knows("trl_1")


@live
async def test_a_door_that_cannot_be_opened_is_not_kept(tmp_path: Path) -> None:
    async with a_yard(tmp_path) as yard, yard.server() as grants:
        doors = GrantedDoors(grants, Vault(tmp_path / "key"))
        yard.inside.gone.add("box")
        with pytest.raises(DevboxGone):
            await doors.open("box", Upstream("http://127.0.0.1:1"), "gateway")
        assert grants.of_devbox("box") == []


@live
async def test_a_server_that_asks_no_models_has_no_gateway(tmp_path: Path) -> None:
    """Also where there was one before, whose socket still lies there."""
    async with a_yard(tmp_path) as yard:
        async with yard.server() as first:
            await first.open(a_grant())
            await first.close("trl_1")
        assert (yard.folder / protocol.SOCKET).exists()
        async with yard.server():
            assert not is_running(yard.folder)


@live
async def test_a_gateway_that_is_killed_again_while_its_doors_are_opened_is_started_once_more(
    tmp_path: Path,
) -> None:
    async with a_yard(tmp_path) as yard, yard.server() as grants:
        await grants.open(a_grant())
        first = await yard.status()
        yard.inside.asked.clear()
        yard.inside.go_on.clear()
        os.kill(first["pid"], signal.SIGKILL)
        await yard.inside.asked.wait()
        second = await yard.status()
        assert second["pid"] != first["pid"]
        os.kill(second["pid"], signal.SIGKILL)
        await eventually(lambda: grants._gateway._channel is None, "the server sees that it is gone")
        yard.inside.go_on.set()
        assert (await grants.spent("trl_1")).calls == 0
        status = await yard.status()
        assert (status["grants"], status["devboxes"]) == (["trl_1"], ["box"])
        await grants.close("trl_1")


@live
async def test_no_door_is_open_again_before_all_its_tokens_are_good(tmp_path: Path) -> None:
    """Whoever waits at the door of a gateway that was killed would be sent away for good."""
    async with a_yard(tmp_path) as yard, yard.server() as grants:
        done: list[str] = []
        grant, listen = grants._gateway.grant, grants._gateway.listen

        async def granted(each: Grant) -> Any:
            await grant(each)
            done.append(each.id)

        async def listening(devbox_id: str, descriptor: int) -> None:
            await listen(devbox_id, descriptor)
            done.append(devbox_id)

        grants._gateway.grant = granted  # type: ignore[method-assign, assignment]
        grants._gateway.listen = listening  # type: ignore[method-assign]
        await grants.open(a_grant("trl_1"))
        assert done == ["trl_1", "box"]
        await grants.open(a_grant("door-1"))
        done.clear()
        os.kill((await yard.status())["pid"], signal.SIGKILL)
        await eventually(lambda: done.count("box") == 2, "the door is open again")
        assert set(done[: done.index("box")]) == {"trl_1", "door-1"}
        await grants.close("trl_1")
        await grants.close("door-1")
