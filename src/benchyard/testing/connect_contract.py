"""What every driver owes to a connection into a devbox: it reaches that loopback, or says why not."""

import asyncio
import os
import socket

import pytest

from benchyard.devboxes.base import Capability, Command
from benchyard.errors import DevboxGone, NotFound, StillWaiting, UsageError
from benchyard.testing.yard import Makes, Yard, contract

_ECHO = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.socket(family) as server:
    if family == socket.AF_INET6:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    server.bind((sys.argv[1], 0))
    server.listen(int(sys.argv[2]))
    print(server.getsockname()[1], ".", flush=True)
    while sys.argv[2] != "0":
        taken = server.accept()[0]
        with taken:
            while data := taken.recv(65536):
                taken.sendall(data)
            taken.sendall(b" and goodbye")
    sys.stdin.read()
"""
_HELD = 8
_WORD = b"hello"


class ConnectContract(Makes):
    """Connections: to what listens inside, and to nothing else."""

    @contract()
    async def test_a_connection_carries_bytes_both_ways_and_half_closes(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        port, _listener = await _listening(yard, devbox, "127.0.0.1")
        for _ in range(2):
            assert await _said(await yard.driver.connect(devbox, port)) == _WORD + b" and goodbye"

    @contract()
    async def test_a_program_that_listens_on_ipv6_only_is_found(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        port, _listener = await _listening(yard, devbox, "::1")
        assert await _said(await yard.driver.connect(devbox, port)) == _WORD + b" and goodbye"

    @contract()
    async def test_a_port_where_nothing_listens_is_not_found(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            with pytest.raises(NotFound, match=str(port)):
                os.close(await yard.driver.connect(devbox, port))
        for wrong in (0, -1, 65_536):
            with pytest.raises(UsageError):
                os.close(await yard.driver.connect(devbox, wrong))

    @contract()
    async def test_only_a_devbox_that_runs_is_connected_to(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        port, _listener = await _listening(yard, devbox, "127.0.0.1")
        await yard.driver.stop(devbox)
        for gone in (devbox, "never-was"):
            with pytest.raises(DevboxGone):
                os.close(await yard.driver.connect(gone, port))

    @contract(Capability.FREEZE)
    async def test_a_devbox_that_stands_still_is_connected_to_once_it_goes_on(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        port, _listener = await _listening(yard, devbox, "127.0.0.1")
        await yard.driver.freeze(devbox)
        connecting = asyncio.ensure_future(yard.driver.connect(devbox, port))
        await asyncio.wait({connecting}, timeout=0.1)
        await yard.driver.thaw(devbox)
        assert await _said(await connecting) == _WORD + b" and goodbye"

    @contract()
    async def test_a_program_that_accepts_nobody_is_not_waited_for_for_ever(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        port, _listener = await _listening(yard, devbox, "127.0.0.1", backlog=0)
        asked = [asyncio.ensure_future(yard.driver.connect(devbox, port)) for _ in range(_HELD)]
        # Meanwhile the devbox answers others.
        assert await yard.text(devbox, "echo here") == "here"
        ended = await asyncio.gather(*asked, return_exceptions=True)
        for descriptor in ended:
            if isinstance(descriptor, int):
                os.close(descriptor)
        errors = [each for each in ended if not isinstance(each, int)]
        assert errors
        assert {type(each) for each in errors} == {StillWaiting}

    @contract(Capability.ISOLATION, Capability.NO_NETWORK)
    async def test_neither_the_machines_ports_nor_another_devboxs_are_reached(self, yard: Yard) -> None:
        devbox, other = await yard.devbox(), await yard.devbox()
        port, _listener = await _listening(yard, other, "127.0.0.1")
        with socket.create_server(("127.0.0.1", 0)) as ours:
            for closed in (port, ours.getsockname()[1]):
                with pytest.raises(NotFound):
                    os.close(await yard.driver.connect(devbox, closed))


async def _listening(yard: Yard, devbox: str, address: str, backlog: int = 16) -> tuple[int, Command]:
    """Start a program inside that sends back what it is sent; its port."""
    argv = ("/usr/bin/python3", "-c", _ECHO, address, str(backlog))
    command = await yard.begin(devbox, argv=argv, attach_stdin=True)
    await yard.shows(command, b".")
    return int((command.folder / "stdout").read_bytes().split()[0]), command


async def _said(descriptor: int) -> bytes:
    """What comes back for a word and the end of the stream."""
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor))
    writer.write(_WORD)
    writer.write_eof()
    said = await reader.read()
    writer.close()
    await writer.wait_closed()
    return said
