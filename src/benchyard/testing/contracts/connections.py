"""Connections of devboxes: into one, by doors out of one, and between those that share a network."""

import asyncio
import os
import socket

import pytest

from benchyard.devboxes.base import Capability, Command
from benchyard.devboxes.guest import sockets
from benchyard.errors import Conflict, DevboxGone, NotFound, StillWaiting, TooMany, UsageError
from benchyard.testing.contracts.driver_fixture import (
    DriverFixture,
    DriverSuite,
    contract,
    eventually,
    holders,
)

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


class ConnectContract(DriverSuite):
    """Connections: to listening programs inside, and nowhere else."""

    @contract()
    async def test_a_connection_carries_bytes_both_ways_and_half_closes(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        port, _listener = await _listening(yard, devbox, "127.0.0.1")
        for _ in range(2):
            assert await _word_back(await yard.driver.connect(devbox, port)) == _WORD + b" and goodbye"

    @contract()
    async def test_a_program_that_listens_on_ipv6_only_is_found(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        port, _listener = await _listening(yard, devbox, "::1")
        assert await _word_back(await yard.driver.connect(devbox, port)) == _WORD + b" and goodbye"

    @contract()
    async def test_a_port_where_nothing_listens_is_not_found(self, yard: DriverFixture) -> None:
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
    async def test_only_a_devbox_that_runs_is_connected_to(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        port, _listener = await _listening(yard, devbox, "127.0.0.1")
        await yard.driver.stop(devbox)
        for gone in (devbox, "never-was"):
            with pytest.raises(DevboxGone):
                os.close(await yard.driver.connect(gone, port))

    @contract(Capability.FREEZE)
    async def test_a_devbox_that_stands_still_is_connected_to_once_it_goes_on(
        self, yard: DriverFixture
    ) -> None:
        devbox = await yard.devbox()
        port, _listener = await _listening(yard, devbox, "127.0.0.1")
        await yard.driver.freeze(devbox)
        connecting = asyncio.ensure_future(yard.driver.connect(devbox, port))
        await asyncio.wait({connecting}, timeout=0.1)
        await yard.driver.thaw(devbox)
        assert await _word_back(await connecting) == _WORD + b" and goodbye"

    @contract()
    async def test_a_program_that_accepts_nobody_is_not_waited_for_for_ever(
        self, yard: DriverFixture
    ) -> None:
        devbox = await yard.devbox()
        port, _listener = await _listening(yard, devbox, "127.0.0.1", backlog=0)
        tasks = [asyncio.ensure_future(yard.driver.connect(devbox, port)) for _ in range(_HELD)]
        # Meanwhile the devbox answers others.
        assert await yard.text(devbox, "echo here") == "here"
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for descriptor in ended:
            if isinstance(descriptor, int):
                os.close(descriptor)
        errors = [result for result in ended if not isinstance(result, int)]
        assert errors
        assert {type(error) for error in errors} == {StillWaiting}

    @contract(Capability.ISOLATION, Capability.NO_NETWORK)
    async def test_neither_the_machines_ports_nor_another_devboxs_are_reached(
        self, yard: DriverFixture
    ) -> None:
        devbox, other = await yard.devbox(), await yard.devbox()
        port, _listener = await _listening(yard, other, "127.0.0.1")
        with socket.create_server(("127.0.0.1", 0)) as ours:
            for closed in (port, ours.getsockname()[1]):
                with pytest.raises(NotFound):
                    os.close(await yard.driver.connect(devbox, closed))


async def _listening(
    yard: DriverFixture, devbox: str, address: str, backlog: int = 16
) -> tuple[int, Command]:
    """Start a program inside that echoes its input; return its port."""
    argv = ("/usr/bin/python3", "-c", _ECHO, address, str(backlog))
    command = await yard.begin(devbox, argv=argv, attach_stdin=True)
    await yard.shows(command, b".")
    return int((command.folder / "stdout").read_bytes().split()[0]), command


async def _word_back(descriptor: int) -> bytes:
    """Return the echo of a word and of the end of the stream."""
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor))
    writer.write(_WORD)
    writer.write_eof()
    said = await reader.read()
    writer.close()
    await writer.wait_closed()
    return said


_ASK = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60) as door:
    door.sendall(sys.argv[2].encode())
    door.shutdown(socket.SHUT_WR)
    said = b""
    while data := door.recv(65536):
        said += data
    print(said.decode())
"""
_TAKE = """
import socket, sys
for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
    for address in ("127.0.0.1", "0.0.0.0", "::", "::ffff:127.0.0.1"):
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as other:
            other.setsockopt(socket.SOL_SOCKET, option, 1)
            try:
                other.bind((address, int(sys.argv[1])))
                other.listen()
            except OSError as error:
                print(error.strerror)
            else:
                sys.exit(f"{address} was taken over")
"""
_BUSY = """
import socket
with socket.socket() as server:
    server.bind(("127.0.0.1", 0))
    server.listen()
    print(server.getsockname()[1], ".", flush=True)
    server.accept()
"""
_AWAY = """
import socket
for address in (("192.0.2.1", 80), ("169.254.169.254", 80), ("10.0.0.1", 443), ("2001:db8::1", 80)):
    with socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET) as other:
        other.settimeout(60)
        try:
            other.connect(address)
        except OSError as error:
            print(error.strerror)
"""
_LOW_PORT = 81


class DoorContract(DriverSuite):
    """Doors: made inside, served outside."""

    @contract()
    async def test_whoever_connects_inside_is_answered_from_outside(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        descriptor, port = await yard.driver.inside.listen(devbox)
        async with await _serve_door(descriptor, "outside"):
            for word in ("one", "two"):
                assert await _ask(yard, devbox, port, word) == f"{word} outside"

    @contract()
    async def test_the_same_port_again_is_the_same_door(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        descriptor, port = await yard.driver.inside.listen(devbox)
        again, same = await yard.driver.inside.listen(devbox, port)
        assert (same, os.fstat(again).st_ino) == (port, os.fstat(descriptor).st_ino)
        os.close(descriptor)
        async with await _serve_door(again, "second"):
            assert await _ask(yard, devbox, port, "word") == "word second"

    @contract()
    async def test_who_came_while_nobody_served_is_answered_by_the_next_driver(
        self, yard: DriverFixture
    ) -> None:
        devbox = await yard.devbox()
        descriptor, port = await yard.driver.inside.listen(devbox)
        inode = os.fstat(descriptor).st_ino
        os.close(descriptor)
        waiting = await yard.begin(devbox, argv=("/usr/bin/python3", "-c", _ASK, str(port), "early"))
        await yard.renew()
        assert await yard.driver.find(yard.specs[devbox])
        again, _port = await yard.driver.inside.listen(devbox, port)
        assert os.fstat(again).st_ino == inode
        async with await _serve_door(again, "next"):
            assert (await yard.finish(waiting)).stdout == b"early next\n"

    @contract()
    async def test_a_port_of_a_program_inside_is_not_taken(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        begun = await yard.begin(devbox, argv=("/usr/bin/python3", "-c", _BUSY))
        await yard.shows(begun, b".")
        port = int((begun.folder / "stdout").read_bytes().split()[0])
        with pytest.raises(Conflict, match=str(port)):
            await yard.driver.inside.listen(devbox, port)

    @contract()
    async def test_no_program_inside_takes_a_door_over(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        before = await yard.begin(devbox, "cat", attach_stdin=True)
        descriptor, port = await yard.driver.inside.listen(devbox)
        inode = os.fstat(descriptor).st_ino
        async with await _serve_door(descriptor, "ours"):
            tried = await yard.run(devbox, argv=("/usr/bin/python3", "-c", _TAKE, str(port)))
            assert tried.stdout.decode().splitlines() == ["Address already in use"] * 8, tried
            # The first process only: neither a supervisor from before nor one forked since.
            await eventually(lambda: len(holders(f"socket:[{inode}]")) <= 1, "nobody else to hold the door")
            await yard.driver.inside.kill_all(devbox)
            await yard.finish(before)
            assert await _ask(yard, devbox, port, "still") == "still ours"

    @contract()
    async def test_a_devbox_has_only_so_many_doors(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        doors = [await yard.driver.inside.listen(devbox) for _ in range(sockets.MOST_DOORS)]
        with pytest.raises(TooMany, match=str(sockets.MOST_DOORS)):
            await yard.driver.inside.listen(devbox)
        again, port = await yard.driver.inside.listen(devbox, doors[0][1])
        assert port == doors[0][1]
        for descriptor in (again, *(each for each, _port in doors)):
            os.close(descriptor)
        for wrong in (-1, 65_536):
            with pytest.raises(UsageError):
                await yard.driver.inside.listen(devbox, wrong)

    @contract()
    async def test_a_devbox_that_has_ended_has_no_doors(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        os.close((await yard.driver.inside.listen(devbox))[0])
        await yard.driver.stop(devbox)
        for gone in (devbox, "never-was"):
            with pytest.raises(DevboxGone):
                await yard.driver.inside.listen(gone)

    @contract(Capability.FREEZE)
    async def test_a_door_is_there_before_and_after_the_devbox_stands_still(
        self, yard: DriverFixture
    ) -> None:
        devbox = await yard.devbox()
        descriptor, port = await yard.driver.inside.listen(devbox)
        async with await _serve_door(descriptor, "ours"):
            await yard.driver.freeze(devbox)
            asking = asyncio.ensure_future(yard.driver.inside.listen(devbox, port))
            await asyncio.wait({asking}, timeout=0.1)
            await yard.driver.thaw(devbox)
            again, _port = await asking
            assert os.fstat(again).st_ino == os.fstat(descriptor).st_ino
            os.close(again)
            assert await _ask(yard, devbox, port, "thawed") == "thawed ours"

    @contract(Capability.ISOLATION, Capability.NO_NETWORK)
    async def test_two_devboxes_have_different_doors_on_one_port(self, yard: DriverFixture) -> None:
        first, second = await yard.devbox(), await yard.devbox()
        one, _port = await yard.driver.inside.listen(first, _LOW_PORT)
        other, _port = await yard.driver.inside.listen(second, _LOW_PORT)
        async with await _serve_door(one, "first"), await _serve_door(other, "second"):
            assert await _ask(yard, first, _LOW_PORT, "word") == "word first"
            assert await _ask(yard, second, _LOW_PORT, "word") == "word second"

    @contract(Capability.ISOLATION, Capability.NO_NETWORK)
    async def test_beside_the_door_there_is_no_way_out(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        descriptor, port = await yard.driver.inside.listen(devbox)
        async with await _serve_door(descriptor, "outside"):
            away = await yard.run(devbox, argv=("/usr/bin/python3", "-c", _AWAY))
            assert away.stdout.decode().splitlines() == ["Network is unreachable"] * 4, away
            assert await _ask(yard, devbox, port, "word") == "word outside"
            with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.1", port), 60):
                pass

    @contract(Capability.SHARED_NETWORK, Capability.ISOLATION)
    async def test_devboxes_that_share_a_network_share_its_doors(self, yard: DriverFixture) -> None:
        first = await yard.devbox()
        beside = await yard.devbox(network_of=first)
        descriptor, port = await yard.driver.inside.listen(first)
        with pytest.raises(Conflict):
            await yard.driver.inside.listen(beside, port)
        own, other = await yard.driver.inside.listen(beside)
        async with await _serve_door(descriptor, "first"), await _serve_door(own, "beside"):
            for devbox in (first, beside):
                assert await _ask(yard, devbox, port, "word") == "word first"
                assert await _ask(yard, devbox, other, "word") == "word beside"


async def _serve_door(descriptor: int, name: str) -> asyncio.Server:
    """Answer each connection to a door with its own words and a name."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read() + f" {name}".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    return await asyncio.start_server(answer, sock=socket.socket(fileno=descriptor))


async def _ask(yard: DriverFixture, devbox: str, port: int, word: str) -> str:
    result = await yard.run(devbox, argv=("/usr/bin/python3", "-c", _ASK, str(port), word))
    assert result.status.exit_status == 0, result
    return result.stdout.decode().strip()


_SERVE = """
import socket, sys
with socket.socket() as server:
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", int(sys.argv[1])))
    server.listen()
    print(server.getsockname()[1], ".", flush=True)
    while True:
        with server.accept()[0] as taken:
            taken.sendall(b"hello")
"""
_FETCH = "import socket, sys; print(socket.create_connection(('127.0.0.1', int(sys.argv[1])), 10).recv(9))"
_LOW_SHARED_PORT = 80


class NetworkContract(DriverSuite):
    """Networks of several devboxes."""

    @contract(Capability.SHARED_NETWORK)
    async def test_one_devbox_reaches_what_listens_in_the_other(self, yard: DriverFixture) -> None:
        first = await yard.devbox()
        beside = await yard.devbox(network_of=first)
        for server, client in ((first, beside), (beside, first)):
            port = await _serve_inside(yard, server, 0)
            assert await _fetch(yard, client, port) == "b'hello'"

    @contract(Capability.SHARED_NETWORK, Capability.ISOLATION)
    async def test_it_may_listen_on_any_port_and_others_hear_nothing_of_it(self, yard: DriverFixture) -> None:
        first, stranger = await yard.devbox(), await yard.devbox()
        beside = await yard.devbox(network_of=first)
        assert await _serve_inside(yard, beside, _LOW_SHARED_PORT) == _LOW_SHARED_PORT
        assert await _fetch(yard, first, _LOW_SHARED_PORT) == "b'hello'"
        refused = await yard.run(stranger, argv=("/usr/bin/python3", "-c", _FETCH, str(_LOW_SHARED_PORT)))
        assert refused.status.exit_status == 1
        assert b"refused" in refused.stderr

    @contract(Capability.SHARED_NETWORK, Capability.ISOLATION)
    async def test_files_and_processes_stay_apart(self, yard: DriverFixture) -> None:
        first = await yard.devbox()
        beside = await yard.devbox(network_of=first)
        marker = yard.marker()
        begun = await yard.begin(first, f"touch /tmp/{marker}; echo there; sleep {marker}")
        await yard.shows(begun, b"there")
        seen = await yard.text(beside, "ls /tmp; cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert marker not in seen

    @contract(Capability.SHARED_NETWORK, Capability.ISOLATION)
    async def test_it_lives_on_when_the_other_ends(self, yard: DriverFixture) -> None:
        first = await yard.devbox()
        beside = await yard.devbox(network_of=first)
        await yard.driver.stop(first)
        port = await _serve_inside(yard, beside, 0)
        assert await _fetch(yard, beside, port) == "b'hello'"

    @contract(Capability.SHARED_NETWORK, Capability.ISOLATION)
    async def test_a_devbox_that_does_not_run_has_no_network_to_share(self, yard: DriverFixture) -> None:
        with pytest.raises(DevboxGone, match="never-was"):
            await yard.devbox(network_of="never-was")


async def _serve_inside(yard: DriverFixture, devbox: str, port: int) -> int:
    begun = await yard.begin(devbox, argv=("/usr/bin/python3", "-c", _SERVE, str(port)))
    await yard.shows(begun, b" .\n")
    return int((begun.folder / "stdout").read_text().split()[0])


async def _fetch(yard: DriverFixture, devbox: str, port: int) -> str:
    result = await yard.run(devbox, argv=("/usr/bin/python3", "-c", _FETCH, str(port)))
    assert result.status.exit_status == 0, result
    return result.stdout.decode().strip()
