"""A build without a network gets out by one door, and by nothing else."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from benchyard.devboxes.base import Network
from benchyard.errors import BuildFailed
from benchyard.images.builders.base import BuildDoor
from tests.images.builders.conftest import BASE, Yard
from tests.images.builders.test_ending import is_soon_clean

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="buildah as an ordinary user needs ranges of ids"),
    # BuildKit's builds run in its own engine, out of reach of a door: the engine refuses to ask for one.
    pytest.mark.parametrize("yard", ["buildah"], indirect=True, scope="module"),
]

PORT = 3128


class Proxy:
    """Answers every request that comes in by the door with the line that asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.served = 0

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head.partition(b"\r\n")[0].decode())
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        writer.close()
        await writer.wait_closed()

    @asynccontextmanager
    async def serve(self, descriptor: int) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._answer, sock=socket.socket(fileno=os.dup(descriptor)))
        self.served += 1
        try:
            yield
        finally:
            server.close()
            self.served -= 1

    def door(self, rules: str = "one") -> BuildDoor:
        variables = dict.fromkeys(("http_proxy", "HTTP_PROXY"), f"http://127.0.0.1:{PORT}")
        return BuildDoor(PORT, {**variables, "no_proxy": ""}, rules, self.serve)


def test_commands_of_a_dockerfile_reach_the_door_and_nothing_else(yard: Yard) -> None:
    proxy = Proxy()
    dockerfile = (
        f"FROM {BASE}\n"
        "RUN wget -q -O /page http://example.test/page\n"
        "RUN tail -n +3 /proc/net/dev | grep -v '^ *lo:' && exit 1; true\n"
        "RUN env | grep -i proxy; ls -l /proc/self/fd | grep socket: && exit 1; true\n"
    )
    built = yard.build(dockerfile, network=Network.NONE, door=proxy.door())
    pages = [layer / "page" for layer in yard.layers(built) if (layer / "page").exists()]
    assert [page.read_text() for page in pages] == ["hello"], yard.lines
    assert proxy.asked == ["GET http://example.test/page HTTP/1.1"]
    assert proxy.served == 0
    assert not [name for name in built.image.env if "proxy" in name.lower()], "no image tells of the proxy"
    assert is_soon_clean(yard)


def test_a_build_that_fails_closes_its_door(yard: Yard) -> None:
    proxy = Proxy()
    with pytest.raises(BuildFailed):
        yard.build(f"FROM {BASE}\nRUN exit 3\n", network=Network.NONE, door=proxy.door())
    assert proxy.served == 0
    assert is_soon_clean(yard)


def test_a_door_that_cannot_be_served_ends_the_build(yard: Yard) -> None:
    @asynccontextmanager
    async def refuse(descriptor: int) -> AsyncIterator[None]:
        if descriptor >= 0:
            raise BuildFailed("nobody serves this")
        yield

    door = BuildDoor(PORT, {}, "none", refuse)
    with pytest.raises(BuildFailed, match="nobody serves this"):
        yard.build(f"FROM {BASE}\nRUN touch /made\n", network=Network.NONE, door=door)
    assert is_soon_clean(yard)
