"""Duties of every driver to a devbox: its life, its disk, its walls."""

import asyncio
import socket
from pathlib import Path

import pytest

from benchyard.devboxes.base import Capability, DevboxLimits, DevboxSpec, Network, Stdin
from benchyard.errors import DevboxGone
from benchyard.testing.contracts.driver_fixture import (
    DriverFixture,
    DriverSuite,
    contract,
    eventually,
    holders,
    processes_with,
)

_MANY = 50
_SAMPLES = 10
_CANCEL_AFTER_SECONDS = (0.0, 0.002, 0.01, 0.03, 0.08)


class DevboxContract(DriverSuite):
    """Devboxes: how they start, live on, are copied, and end."""

    @contract()
    async def test_starting_again_changes_nothing(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "touch here")
        await yard.driver.start(yard.specs[devbox])
        assert await yard.text(devbox, "ls") == "here"

    @contract()
    async def test_stop_ends_everything_and_can_be_repeated(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        plain, daemon = yard.marker(), yard.marker()
        hidden = f"(setsid sh -c \"trap '' TERM HUP INT; sleep {daemon}; true\" >/dev/null 2>&1 &)"
        await yard.begin(devbox, f"{hidden}; sleep {plain}")
        await eventually(lambda: bool(processes_with(plain) and processes_with(daemon)), "their start")
        await yard.driver.stop(devbox)
        assert not processes_with(plain) + processes_with(daemon)
        await yard.driver.stop(devbox)
        await yard.driver.stop("never-was")
        with pytest.raises(DevboxGone):
            await yard.begin(devbox, "true")

    @contract()
    async def test_stop_leaves_no_process_and_no_mount(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "true")
        await yard.driver.stop(devbox)
        await eventually(lambda: not holders(yard.specs[devbox].folder), "the end of all who hold its folder")

    @contract()
    async def test_the_disk_outlives_a_stop(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "echo kept > file")
        await yard.driver.stop(devbox)
        await yard.driver.start(yard.specs[devbox])
        assert await yard.text(devbox, "cat file") == "kept"

    @contract()
    async def test_a_cancelled_start_leaves_nothing_behind(self, yard: DriverFixture) -> None:
        for delay in _CANCEL_AFTER_SECONDS:
            spec = yard.spec()
            starting = asyncio.ensure_future(yard.driver.start(spec))
            await asyncio.sleep(delay)
            if starting.cancel():
                await asyncio.wait([starting])
            if not starting.cancelled():
                await yard.driver.stop(spec.id)
            await _left_nothing(yard, spec)
            await yard.driver.start(spec)
            assert await yard.text(spec.id, "echo fine") == "fine"
            await yard.driver.stop(spec.id)

    @contract()
    async def test_devboxes_are_found_by_a_new_driver(self, yard: DriverFixture) -> None:
        devbox, other = await yard.devbox(), await yard.devbox()
        await yard.driver.stop(other)
        command = await yard.begin(
            devbox, "echo before; read line; echo got $line; exit 5", attach_stdin=True
        )
        unheard = await yard.begin(devbox, "read line; exit 6", attach_stdin=True)
        await yard.shows(command, b"before")
        await yard.renew()
        assert await yard.driver.find(yard.specs[devbox])
        assert not await yard.driver.find(yard.specs[other])
        assert not await yard.driver.find(yard.spec())
        assert await yard.driver.control(devbox, command.id, Stdin(b"after\n"))
        result = await yard.finish(command)
        assert (result.stdout, result.status.exit_status) == (b"before\ngot after\n", 5)
        assert await yard.driver.control(devbox, unheard.id, Stdin(b"\n"))
        assert (await yard.finish(unheard)).status.exit_status == 6
        assert await yard.text(devbox, "echo new") == "new"

    @contract()
    async def test_a_command_that_ends_while_nobody_looks_has_its_status(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        command = await yard.begin(devbox, "echo started; while [ ! -e go ]; do sleep 0.01; done; exit 9")
        await yard.shows(command, b"started")
        await yard.write(devbox, "~/go", b"")
        await yard.renew()
        assert (await yard.finish(command)).status.exit_status == 9
        assert await yard.driver.find(yard.specs[devbox])

    @contract()
    async def test_devboxes_do_not_see_each_others_files(self, yard: DriverFixture) -> None:
        one, other = await yard.devbox(), await yard.devbox()
        await yard.text(one, "touch mine")
        assert await yard.text(other, "ls") == ""

    @contract()
    async def test_fifty_at_once(self, yard: DriverFixture) -> None:
        devboxes = await asyncio.gather(*(yard.devbox() for _ in range(_MANY)))
        said = await asyncio.gather(*(yard.text(one, f"echo {one}") for one in devboxes))
        assert said == devboxes
        await asyncio.gather(*(yard.driver.stop(one) for one in devboxes))
        folder = yard.folder / "devboxes"
        await eventually(lambda: not holders(folder), "the end of all fifty")

    @contract(Capability.SNAPSHOTS)
    async def test_a_copy_of_the_disk_stands_apart(self, yard: DriverFixture) -> None:
        first = await yard.devbox()
        await yard.text(
            first, "mkdir d; echo one > d/kept; touch d/gone; ln -s kept d/link; chmod 750 d/kept"
        )
        layer = await yard.layer(first)
        await yard.text(first, "echo two > d/kept; touch d/later")
        second = await yard.devbox(rootfs=yard.on_top(layer))
        assert await yard.text(second, "cat d/link; ls d; stat -c %a d/kept") == "one\ngone\nkept\nlink\n750"
        await yard.text(second, "rm d/gone; echo three >> d/kept")
        third = await yard.devbox(rootfs=yard.on_top(await yard.layer(second), layer))
        assert await yard.text(third, "cat d/kept; ls d") == "one\nthree\nkept\nlink"
        assert await yard.text(first, "cat d/kept; ls d") == "two\ngone\nkept\nlater\nlink"

    @contract(Capability.SNAPSHOTS, Capability.IMAGES)
    async def test_layers_can_be_merged_and_packed(self, yard: DriverFixture) -> None:
        first = await yard.devbox()
        await yard.text(first, "mkdir d e; echo one > d/kept; touch d/gone e/gone; chmod 2750 d")
        below = await yard.layer(first)
        second = await yard.devbox(rootfs=yard.on_top(below))
        await yard.text(second, "rm d/gone; rm -r e; echo two > d/new; ln d/new d/link; mkdir e")
        stack = yard.on_top(await yard.layer(second), below)
        merged, unpacked = yard.folder / "merged", yard.folder / "unpacked"
        await yard.driver.trees.merge(stack, 2, merged)
        digest, size = await yard.driver.trees.pack(merged, yard.folder / "layer.tar")
        assert (len(digest), size) == (64, (yard.folder / "layer.tar").stat().st_size)
        unpacked.mkdir()
        await yard.driver.trees.unpack(yard.folder / "layer.tar", unpacked)
        looked = (
            "stat -c '%n %a %U %s' d d/* e; ls e; cat d/kept d/link; stat -c %i d/new d/link | uniq | wc -l"
        )
        expected = await yard.text(second, looked)
        for layer in (merged, unpacked):
            assert await yard.text(await yard.devbox(rootfs=yard.on_top(layer)), looked) == expected
        for layer in (merged, unpacked):
            await yard.driver.trees.remove(layer)

    @contract(Capability.FREEZE)
    async def test_freezing_holds_every_process_until_thawed(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        marker = yard.marker()
        command = await yard.begin(devbox, f"sleep {marker} & while :; do echo tick; sleep 0.01; done")
        stdout = command.folder / "stdout"
        await yard.shows(command, b"tick")
        await yard.driver.freeze(devbox)
        size = await _settled(stdout)
        await yard.driver.thaw(devbox)
        await eventually(lambda: stdout.stat().st_size > size, "the next tick")
        await yard.driver.freeze(devbox)
        await yard.driver.stop(devbox)
        assert not processes_with(marker)

    @contract(Capability.NO_NETWORK)
    async def test_no_network_means_none(self, yard: DriverFixture) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            reach = ("/bin/bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}")
            devbox = await yard.devbox(network=Network.NONE)
            assert await yard.text(devbox, "sed -n '3,$s/:.*//p' /proc/net/dev | tr -d ' '") == "lo"
            assert (await yard.run(devbox, argv=reach)).status.exit_status != 0
            open_devbox = await yard.devbox(network=Network.HOST)
            assert (await yard.run(open_devbox, argv=reach)).status.exit_status == 0

    @contract(Capability.ISOLATION)
    async def test_the_machine_stays_outside(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        secret = yard.folder / "secret"
        secret.write_text("secret")
        assert (await yard.run(devbox, f"cat {secret}")).status.exit_status != 0
        assert "pytest" not in await yard.text(devbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert (await yard.run(devbox, "echo 1 > /proc/sysrq-trigger")).status.exit_status != 0

    @contract(Capability.USERS)
    async def test_commands_run_as_the_user_asked_for(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        assert await yard.text(devbox, "id -u; id -g") == "0\n0"
        assert await yard.text(devbox, "id -u", user="1234") == "1234"
        assert (await yard.run(devbox, "true", user="no-such-user")).status.exit_status == 126
        assert (await yard.run(devbox, "touch /etc/mine", user="1234")).status.exit_status != 0

    @contract(Capability.LIMIT_MEMORY)
    async def test_too_much_memory_is_an_out_of_memory_kill(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox(limits=DevboxLimits(memory_bytes=64 * 1024**2))
        result = await yard.run(devbox, "head -c 300000000 /dev/zero | tail -c 300000000 | wc -c")
        assert result.stdout.strip() != b"300000000"
        assert (await yard.driver.usage(devbox)).out_of_memory_kills > 0
        assert await yard.text(devbox, "echo alive") == "alive"

    @contract(Capability.LIMIT_PIDS)
    async def test_too_many_processes_are_refused(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox(limits=DevboxLimits(pids=40))
        marker = yard.marker()
        await yard.run(devbox, f"for i in $(seq 100); do sleep {marker} & done", timeout_seconds=20)
        assert len(processes_with(marker)) <= 40
        await yard.driver.stop(devbox)
        assert not processes_with(marker)

    @contract()
    async def test_usage_counts_what_runs(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        command = await yard.begin(devbox, "echo up; cat", attach_stdin=True)
        await yard.shows(command, b"up")
        usage = await yard.driver.usage(devbox)
        assert usage.processes is None or usage.processes >= 1
        assert usage.memory_bytes is None or usage.memory_bytes > 0


async def _left_nothing(yard: DriverFixture, spec: DevboxSpec) -> None:
    await eventually(lambda: not holders(spec.folder), "the end of all that a cancelled start began")
    with pytest.raises(DevboxGone):
        await yard.begin(spec.id, "true")


async def _settled(stdout: Path) -> int:
    """Return the size of a file that stopped growing; bytes in a pipe may still arrive after a freeze."""
    sizes = [-1]
    while len(sizes) < _SAMPLES or len(set(sizes[-_SAMPLES:])) > 1:
        assert len(sizes) < _SAMPLES * 100, "a frozen devbox goes on writing"
        await asyncio.sleep(0.02)
        sizes.append(stdout.stat().st_size)
    return sizes[-1]
