"""What drivers that claim `shared_network` owe: devboxes that share one loopback, and nothing else."""

import pytest

from benchyard.devboxes.base import Capability
from benchyard.errors import DevboxGone
from benchyard.testing.yard import Makes, Yard, contract

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
_LOW_PORT = 80


class NetworkContract(Makes):
    """Networks of several devboxes."""

    @contract(Capability.SHARED_NETWORK)
    async def test_one_devbox_reaches_what_listens_in_the_other(self, yard: Yard) -> None:
        first = await yard.devbox()
        beside = await yard.devbox(network_of=first)
        for server, client in ((first, beside), (beside, first)):
            port = await _served(yard, server, 0)
            assert await _fetched(yard, client, port) == "b'hello'"

    @contract(Capability.SHARED_NETWORK, Capability.ISOLATION)
    async def test_it_may_listen_on_any_port_and_others_hear_nothing_of_it(self, yard: Yard) -> None:
        first, stranger = await yard.devbox(), await yard.devbox()
        beside = await yard.devbox(network_of=first)
        assert await _served(yard, beside, _LOW_PORT) == _LOW_PORT
        assert await _fetched(yard, first, _LOW_PORT) == "b'hello'"
        refused = await yard.run(stranger, argv=("/usr/bin/python3", "-c", _FETCH, str(_LOW_PORT)))
        assert refused.status.exit_status == 1
        assert b"refused" in refused.stderr

    @contract(Capability.SHARED_NETWORK, Capability.ISOLATION)
    async def test_files_and_processes_stay_apart(self, yard: Yard) -> None:
        first = await yard.devbox()
        beside = await yard.devbox(network_of=first)
        marker = yard.marker()
        begun = await yard.begin(first, f"touch /tmp/{marker}; echo there; sleep {marker}")
        await yard.shows(begun, b"there")
        seen = await yard.text(beside, "ls /tmp; cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert marker not in seen

    @contract(Capability.SHARED_NETWORK, Capability.ISOLATION)
    async def test_it_lives_on_when_the_other_ends(self, yard: Yard) -> None:
        first = await yard.devbox()
        beside = await yard.devbox(network_of=first)
        await yard.driver.stop(first)
        port = await _served(yard, beside, 0)
        assert await _fetched(yard, beside, port) == "b'hello'"

    @contract(Capability.SHARED_NETWORK, Capability.ISOLATION)
    async def test_a_devbox_that_does_not_run_has_no_network_to_share(self, yard: Yard) -> None:
        with pytest.raises(DevboxGone, match="never-was"):
            await yard.devbox(network_of="never-was")


async def _served(yard: Yard, devbox: str, port: int) -> int:
    begun = await yard.begin(devbox, argv=("/usr/bin/python3", "-c", _SERVE, str(port)))
    await yard.shows(begun, b" .\n")
    return int((begun.folder / "stdout").read_text().split()[0])


async def _fetched(yard: Yard, devbox: str, port: int) -> str:
    result = await yard.run(devbox, argv=("/usr/bin/python3", "-c", _FETCH, str(port)))
    assert result.status.exit_status == 0, result
    return result.stdout.decode().strip()
