"""Outputs of commands: a budget per devbox and per machine, and space that is left to others."""

import os
from pathlib import Path

from benchyard.devboxes.base import DevboxLimits
from benchyard.devboxes.guest.supervisor import CommandOutput
from benchyard.hosts.output import LEAST_BYTES, OutputBudget, tree_bytes
from tests.hosts.conftest import OnHost
from tests.hosts.yard import HostYard

MEBIBYTE = 1024**2


def test_all_commands_of_a_devbox_share_its_budget(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox(
            limits=DevboxLimits(output_bytes=8 * MEBIBYTE, all_output_bytes=12 * MEBIBYTE)
        )
        sizes = []
        for _ in range(3):
            state = await yard.run(devbox, "head -c 9000000 /dev/zero")
            assert state.stdout_truncated
            sizes.append(state.stdout_bytes)
            assert f"cut after {sizes[-1]} bytes" in (state.hint or "")
        # Each stream gets half of what is left, and what it can always say.
        assert sizes == [6 * MEBIBYTE, 3 * MEBIBYTE, 3 * MEBIBYTE // 2]
        await yard.restart()
        state = await yard.run(devbox, "head -c 9000000 /dev/zero")
        assert state.stdout_bytes == LEAST_BYTES
        # A scorer is not cut short by what others have said.
        state = await yard.run(devbox, "", argv=("/bin/sh", "-c", "head -c 7000000 /dev/zero"), strict=True)
        assert (state.stdout_bytes, state.stdout_truncated) == (7_000_000, False)

    on_host(test)


def test_commands_that_run_at_once_do_not_exceed_it_together(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox(
            limits=DevboxLimits(output_bytes=8 * MEBIBYTE, all_output_bytes=8 * MEBIBYTE)
        )
        begun = [
            await yard.host.exec(devbox, yard.request("head -c 9000000 /dev/zero; sleep 2")) for _ in range(4)
        ]
        ended = [await yard.host.wait(devbox, each.id, 60) for each in begun]
        assert [each.stdout_bytes for each in ended] == [4 * MEBIBYTE, *[LEAST_BYTES] * 3]

    on_host(test)


def test_the_outputs_of_who_ended_first_go_first(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        yard.host._outputs.most_bytes = 2_500_000
        for number in range(4):
            devbox = await yard.devbox(f"dbx_{number}")
            await yard.run(devbox, "head -c 1000000 /dev/zero")
            if number < 3:
                await yard.host.stop(devbox, keep_disk=False)
                os.utime(yard.folder / "host/devboxes" / devbox / "request.json", (number, number))
        assert (await yard.run("dbx_3", "head -c 2000000 /dev/zero")).stdout_bytes == LEAST_BYTES
        # One that runs keeps its own.
        assert await yard.host.forget_old(0) == ["dbx_0", "dbx_1", "dbx_2"]
        assert tree_bytes(yard.folder / "host/devboxes/dbx_3/executions") == 1_000_000 + LEAST_BYTES

    on_host(test)


def test_output_is_cut_where_the_disk_is_short_and_the_command_goes_on(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    reading, writing = os.pipe()
    target = os.open(tmp_path / "stdout", os.O_WRONLY | os.O_CREAT)
    output = CommandOutput(reading, target, 100 * MEBIBYTE, spare=2 * disk.f_blocks * disk.f_frsize)
    for _ in range(10):
        os.write(writing, bytes(32 * 1024))
        assert output.pump()
    assert output.truncated
    assert "short of space" in (output.error or "")
    assert (tmp_path / "stdout").stat().st_size == 64 * 1024
    for descriptor in (reading, writing, target):
        os.close(descriptor)


def test_spare_bytes_depend_on_the_disk(tmp_path: Path) -> None:
    budget = OutputBudget()
    budget.measure_disk(tmp_path)
    disk = os.statvfs(tmp_path)
    assert budget.spare_bytes == min(1024**3, disk.f_blocks * disk.f_frsize // 20)
