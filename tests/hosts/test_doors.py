"""A host opens doors out of its running devboxes."""

import asyncio
import os
import socket

import pytest

from benchyard.errors import DevboxGone, NotFound, NotSupported
from benchyard.gateway.egress.proxy import serve_egress
from benchyard.gateway.egress.rules import Block, Rules
from tests.hosts.conftest import OnHost
from tests.hosts.yard import HostYard

_FETCH = """
import socket, sys, urllib.error, urllib.request
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=60).read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode().strip())
try:
    socket.getaddrinfo("example.com", 80)
except OSError:
    print("no names")
"""
_ASK = "import socket, sys; print(socket.create_connection(('127.0.0.1', {}), 60).recv(9).decode())"


@pytest.mark.parametrize("name", ["fake", "native"])
def test_a_door_leads_out_of_a_running_devbox(on_host: OnHost, name: str) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        descriptor, port = await yard.host.doors.open(devbox)
        again, same = await yard.host.doors.open(devbox, port)
        os.close(again)
        assert same == port
        asked = await yard.host.exec(devbox, yard.request(f'python3 -c "{_ASK.format(port)}"'))
        with socket.socket(fileno=descriptor) as door:
            door.settimeout(60)
            with door.accept()[0] as taken:
                taken.sendall(b"outside")
        await yard.host.wait(devbox, asked.id, 60)
        assert await yard.host.tail(devbox, asked.id, "stdout", 1) == ("outside\n", False)

    on_host(test, name=name)


def test_only_a_devbox_that_runs_has_doors(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        await yard.host.stop(devbox, keep_disk=True)
        with pytest.raises(DevboxGone):
            await yard.host.doors.open(devbox)
        with pytest.raises(NotFound):
            await yard.host.doors.open("never-was")

    on_host(test)


def test_a_driver_that_runs_nothing_says_so(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        with pytest.raises(NotSupported, match="native"):
            await yard.host.doors.open(devbox)

    on_host(test, name="pretend")


def test_an_allow_list_on_a_door_is_the_only_way_out(on_host: OnHost) -> None:
    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage")
        writer.close()
        await writer.wait_closed()

    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        descriptor, port = await yard.host.doors.open(devbox)
        web = await asyncio.start_server(page, "127.0.0.1", 0)
        there = web.sockets[0].getsockname()[1]
        rules = Rules.of(blocks=[Block.of("127.0.0.1/32", [(there, there)])])
        proxy = await serve_egress(socket.socket(fileno=descriptor), lambda: rules)
        try:
            variables = {"http_proxy": f"http://127.0.0.1:{port}"}
            urls = f"http://127.0.0.1:{there}/ http://example.com/ http://169.254.169.254/"
            said = await yard.text(devbox, f"python3 -c '{_FETCH}' {urls}", env=variables)
        finally:
            await proxy.close()
            web.close()
        lines = said.splitlines()
        assert lines[0] == "page"
        assert "403 the devbox's network policy forbids this: no rule allows example.com" in lines[1]
        assert "no rule allows 169.254.169.254" in lines[2]
        assert lines[3] == "no names"
        assert {each.host for each in proxy.log.refused()} == {"example.com", "169.254.169.254"}

    on_host(test, name="native")
