"""What every driver owes to doors out of a devbox: whoever connects inside is answered from outside.

And nobody else: no program of the devbox can take a door over, and it is a way to nowhere but who serves it.
"""

import asyncio
import os
import socket

import pytest

from benchyard.devboxes.base import Capability
from benchyard.devboxes.box import doors
from benchyard.errors import Conflict, DevboxGone, TooMany, UsageError
from benchyard.testing.yard import Makes, Yard, contract, eventually, holders

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


class DoorContract(Makes):
    """Doors: made inside, served outside."""

    @contract()
    async def test_whoever_connects_inside_is_answered_from_outside(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        descriptor, port = await yard.driver.inside.listen(devbox)
        async with await _served(descriptor, "outside"):
            for word in ("one", "two"):
                assert await _asked(yard, devbox, port, word) == f"{word} outside"

    @contract()
    async def test_the_same_port_again_is_the_same_door(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        descriptor, port = await yard.driver.inside.listen(devbox)
        again, same = await yard.driver.inside.listen(devbox, port)
        assert (same, os.fstat(again).st_ino) == (port, os.fstat(descriptor).st_ino)
        os.close(descriptor)
        async with await _served(again, "second"):
            assert await _asked(yard, devbox, port, "word") == "word second"

    @contract()
    async def test_who_came_while_nobody_served_is_answered_by_the_next_driver(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        descriptor, port = await yard.driver.inside.listen(devbox)
        inode = os.fstat(descriptor).st_ino
        os.close(descriptor)
        waiting = await yard.begin(devbox, argv=("/usr/bin/python3", "-c", _ASK, str(port), "early"))
        await yard.renew()
        assert await yard.driver.find(yard.specs[devbox])
        again, _port = await yard.driver.inside.listen(devbox, port)
        assert os.fstat(again).st_ino == inode
        async with await _served(again, "next"):
            assert (await yard.finish(waiting)).stdout == b"early next\n"

    @contract()
    async def test_a_port_of_a_program_inside_is_not_taken(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        begun = await yard.begin(devbox, argv=("/usr/bin/python3", "-c", _BUSY))
        await yard.shows(begun, b".")
        port = int((begun.folder / "stdout").read_bytes().split()[0])
        with pytest.raises(Conflict, match=str(port)):
            await yard.driver.inside.listen(devbox, port)

    @contract()
    async def test_no_program_inside_takes_a_door_over(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        before = await yard.begin(devbox, "cat", attach_stdin=True)
        descriptor, port = await yard.driver.inside.listen(devbox)
        inode = os.fstat(descriptor).st_ino
        async with await _served(descriptor, "ours"):
            tried = await yard.run(devbox, argv=("/usr/bin/python3", "-c", _TAKE, str(port)))
            assert tried.stdout.decode().splitlines() == ["Address already in use"] * 8, tried
            # The first process only: neither a supervisor from before nor one forked since.
            await eventually(lambda: len(holders(f"socket:[{inode}]")) <= 1, "nobody else to hold the door")
            await yard.driver.inside.kill_all(devbox)
            await yard.finish(before)
            assert await _asked(yard, devbox, port, "still") == "still ours"

    @contract()
    async def test_a_devbox_has_only_so_many_doors(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        made = [await yard.driver.inside.listen(devbox) for _ in range(doors.MOST)]
        with pytest.raises(TooMany, match=str(doors.MOST)):
            await yard.driver.inside.listen(devbox)
        again, port = await yard.driver.inside.listen(devbox, made[0][1])
        assert port == made[0][1]
        for descriptor in (again, *(each for each, _port in made)):
            os.close(descriptor)
        for wrong in (-1, 65_536):
            with pytest.raises(UsageError):
                await yard.driver.inside.listen(devbox, wrong)

    @contract()
    async def test_a_devbox_that_has_ended_has_no_doors(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        os.close((await yard.driver.inside.listen(devbox))[0])
        await yard.driver.stop(devbox)
        for gone in (devbox, "never-was"):
            with pytest.raises(DevboxGone):
                await yard.driver.inside.listen(gone)

    @contract(Capability.FREEZE)
    async def test_a_door_is_there_before_and_after_the_devbox_stands_still(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        descriptor, port = await yard.driver.inside.listen(devbox)
        async with await _served(descriptor, "ours"):
            await yard.driver.freeze(devbox)
            asking = asyncio.ensure_future(yard.driver.inside.listen(devbox, port))
            await asyncio.wait({asking}, timeout=0.1)
            await yard.driver.thaw(devbox)
            again, _port = await asking
            assert os.fstat(again).st_ino == os.fstat(descriptor).st_ino
            os.close(again)
            assert await _asked(yard, devbox, port, "thawed") == "thawed ours"

    @contract(Capability.ISOLATION, Capability.NO_NETWORK)
    async def test_two_devboxes_have_different_doors_on_one_port(self, yard: Yard) -> None:
        first, second = await yard.devbox(), await yard.devbox()
        one, _port = await yard.driver.inside.listen(first, _LOW_PORT)
        other, _port = await yard.driver.inside.listen(second, _LOW_PORT)
        async with await _served(one, "first"), await _served(other, "second"):
            assert await _asked(yard, first, _LOW_PORT, "word") == "word first"
            assert await _asked(yard, second, _LOW_PORT, "word") == "word second"

    @contract(Capability.ISOLATION, Capability.NO_NETWORK)
    async def test_beside_the_door_there_is_no_way_out(self, yard: Yard) -> None:
        devbox = await yard.devbox()
        descriptor, port = await yard.driver.inside.listen(devbox)
        async with await _served(descriptor, "outside"):
            away = await yard.run(devbox, argv=("/usr/bin/python3", "-c", _AWAY))
            assert away.stdout.decode().splitlines() == ["Network is unreachable"] * 4, away
            assert await _asked(yard, devbox, port, "word") == "word outside"
            with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.1", port), 60):
                pass

    @contract(Capability.SHARED_NETWORK, Capability.ISOLATION)
    async def test_devboxes_that_share_a_network_share_its_doors(self, yard: Yard) -> None:
        first = await yard.devbox()
        beside = await yard.devbox(network_of=first)
        descriptor, port = await yard.driver.inside.listen(first)
        with pytest.raises(Conflict):
            await yard.driver.inside.listen(beside, port)
        own, other = await yard.driver.inside.listen(beside)
        async with await _served(descriptor, "first"), await _served(own, "beside"):
            for devbox in (first, beside):
                assert await _asked(yard, devbox, port, "word") == "word first"
                assert await _asked(yard, devbox, other, "word") == "word beside"


async def _served(descriptor: int, name: str) -> asyncio.Server:
    """Answer, on a door, everybody with what they said and a name."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read() + f" {name}".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    return await asyncio.start_server(answer, sock=socket.socket(fileno=descriptor))


async def _asked(yard: Yard, devbox: str, port: int, word: str) -> str:
    result = await yard.run(devbox, argv=("/usr/bin/python3", "-c", _ASK, str(port), word))
    assert result.status.exit_status == 0, result
    return result.stdout.decode().strip()
