"""The native driver's walls, limits and recovery, from inside and outside, in each mode root has."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchyard.devboxes.base import Capability, DevboxEnded, DevboxLimits, DevboxSpec, Driver, Rootfs, Stdin
from benchyard.devboxes.native.driver import NativeDriver
from benchyard.devboxes.shared.running_devbox import FirstProcess
from benchyard.errors import StartFailed, UsageError
from benchyard.images.store import ImageStore
from benchyard.testing.contracts.driver_fixture import PATIENCE_SECONDS, DriverFixture, DriverSuite, contract

REFUSED = [
    "mount -t tmpfs none /mnt",
    "umount /proc",
    "unshare --user true",
    "unshare --mount true",
    "mknod /tmp/disk b 8 0",
    "mknod /tmp/mem c 1 1",
    "cat /proc/1/environ",
    "cat /proc/1/maps",
    "ls -l /proc/1/root/",
    "readlink /proc/1/fd/0",
    "head -c1 /proc/kcore | grep .",
    "echo b > /proc/sysrq-trigger && test -s /proc/sysrq-trigger",
    "echo 1 > /proc/sys/kernel/panic",
    "hostname other",
    "date -s 2000-01-01",
    "chroot /proc/1/root true",
    "echo x > /proc/1/mem",
    "dmesg",
]


@pytest.mark.parametrize("mode", NativeDriver.modes())
class TestNative(DriverSuite):
    mode: str

    def make_driver(self, folder: Path) -> Driver:
        return NativeDriver(folder, {"mode": self.mode})

    async def make_rootfs(self, driver: Driver, folder: Path) -> Rootfs:
        store = ImageStore(folder / "images", driver.trees)
        await store.open()
        return store.rootfs(await store.get("host"))

    @pytest.fixture(autouse=True)
    def _chosen(self, mode: str) -> None:
        self.mode = mode

    @contract()
    async def test_a_command_that_has_ended_leaves_no_process_of_ours(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        for strict in (False, True):
            for _ in range(3):
                await yard.text(devbox, "echo done", strict=strict)
        driver = yard.driver
        assert isinstance(driver, NativeDriver)
        first = driver._running[devbox].held.pid
        children = Path(f"/proc/{first}/task/{first}/children")
        deadline = time.monotonic() + PATIENCE_SECONDS
        # But for one that waits for the next command.
        while len(children.read_text().split()) > 1:
            assert time.monotonic() < deadline, children.read_text()
            await asyncio.sleep(0.01)

    @contract()
    async def test_the_mounts_of_a_devbox_go_after_it_has_ended(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        driver = yard.driver
        assert isinstance(driver, NativeDriver)
        running = driver._running[devbox]
        held = running.mounts()
        assert held is not None
        number = str(Path(f"/proc/self/fd/{held}").readlink())
        os.close(held)
        await driver.stop(devbox)
        # Nobody keeps them: no process is in them, and no descriptor leads there.
        deadline = time.monotonic() + PATIENCE_SECONDS
        while number in _descriptors():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        assert running.mounts() is None

    @contract()
    async def test_root_inside_can_do_nothing_to_the_outside(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        for attempt in REFUSED:
            result = await yard.run(devbox, attempt, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
            assert result.status.exit_status != 0, attempt

    @contract()
    async def test_the_first_process_cannot_be_killed_from_inside(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.run(devbox, "kill -9 1; kill -TERM 1; kill -STOP 1")
        assert await yard.text(devbox, "echo alive") == "alive"

    @contract()
    async def test_the_first_process_shows_nothing_of_itself(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        for attempt in (
            "cat /proc/1/environ",
            "cat /proc/1/maps",
            "readlink /proc/1/fd/0",
            "ls /proc/1/root/",
        ):
            result = await yard.run(devbox, attempt)
            assert result.status.exit_status != 0, attempt

    @contract()
    async def test_limits_are_clamped_and_cannot_be_raised(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        open_files, core = (await yard.text(devbox, "ulimit -Hn; ulimit -Hc")).split()
        assert int(open_files) <= 65536
        assert core == "0"
        result = await yard.run(devbox, f"ulimit -n {int(open_files) + 1} || ulimit -c unlimited")
        assert result.status.exit_status != 0

    @contract()
    async def test_no_program_gains_privileges_unless_sudo_is_served(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        expected = "0" if Capability.SUDO in yard.driver.capabilities else "1"
        status = await yard.text(devbox, "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status")
        assert status.split() == ["NoNewPrivs:", expected, "Seccomp:", "2"]

    @contract()
    async def test_no_socket_reaches_the_machine_below(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        result = await yard.run(devbox, "python3 -c 'import socket; socket.socket(socket.AF_VSOCK)'")
        assert b"not supported by protocol" in result.stderr

    @contract()
    async def test_a_command_whose_keeper_is_killed_ends_with_137(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        command = await yard.begin(devbox, "kill -9 -1; kill -9 $PPID; sleep 60")
        result = await yard.finish(command)
        assert result.status.exit_status == 137
        assert await yard.text(devbox, "echo alive") == "alive"

    @contract()
    async def test_nothing_personal_of_the_host_is_inside(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        (yard.folder / "secret").write_text("mine")
        shown = await yard.run(
            devbox, f"cat {yard.folder}/secret; ls {yard.folder}; cat /etc/shadow | grep -v '[*!]'"
        )
        assert b"mine" not in shown.stdout
        assert (await yard.run(devbox, f"test -e {yard.folder}")).status.exit_status == 1
        assert await yard.text(devbox, "ls /home") == "user"

    @contract()
    async def test_watches_of_one_devbox_are_not_those_of_others(self, yard: DriverFixture) -> None:
        assert isinstance(yard.driver, NativeDriver)
        if yard.driver.mode != "root-idmap":
            pytest.skip("where ids are not shifted, the kernel counts watches for all devboxes together")
        most = int(Path("/proc/sys/fs/inotify/max_user_instances").read_text())
        hog, neighbour = await yard.devbox(), await yard.devbox()
        # Its files live as long as it does, and the answer is what it got of them.
        script = (
            "import ctypes, time; watch = ctypes.CDLL(None).inotify_init1;"
            f"print(sum(watch(0) >= 0 for _ in range({most} + 1)), flush=True); time.sleep(600)"
        )
        command = await yard.begin(hog, argv=("/usr/bin/python3", "-c", script))
        await yard.shows(command, f"{most}\n".encode())
        one = "import ctypes; assert ctypes.CDLL(None).inotify_init1(0) >= 0"
        assert (await yard.run(neighbour, argv=("/usr/bin/python3", "-c", one))).status.exit_status == 0
        on_the_host = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", one], check=False)
        assert on_the_host.returncode == 0

    @contract(Capability.LIMIT_PIDS)
    async def test_an_idle_devbox_keeps_its_first_process_only(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while (await yard.driver.usage(devbox)).processes != 1:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.05)
        assert await yard.text(devbox, "echo awake") == "awake"

    @contract(Capability.LIMIT_MEMORY)
    async def test_swap_does_not_add_to_the_memory(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox(limits=DevboxLimits(memory_bytes=96 * 1024**2))
        held = FirstProcess.load(yard.specs[devbox].folder)
        assert held is not None
        limits = {"memory.memsw.limit_in_bytes": str(96 * 1024**2), "memory.swap.max": "0"}
        found = {
            name: path.read_text().strip()
            for group in held.groups
            for name in limits
            if (path := Path(group) / name).exists()
        }
        if not found:
            pytest.skip("this kernel does not count swap (CONFIG_SWAP, swapaccount=1)")
        assert found.items() <= limits.items()

    @contract(Capability.LIMIT_MEMORY)
    async def test_using_too_much_memory_kills_the_command_and_is_counted(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox(limits=DevboxLimits(memory_bytes=96 * 1024**2))
        result = await yard.run(devbox, "head -c 300000000 /dev/zero | tail -c 299999999 > /dev/null")
        assert result.status.exit_status != 0
        assert (await yard.driver.usage(devbox)).out_of_memory_kills > 0
        assert await yard.text(devbox, "echo alive") == "alive"

    @contract(Capability.LIMIT_PIDS)
    async def test_a_fork_bomb_stays_inside_its_limit(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox(limits=DevboxLimits(pids=64))
        await yard.run(devbox, "bomb() { bomb | bomb & }; bomb; sleep 1", timeout_seconds=3)
        usage = await yard.driver.usage(devbox)
        assert usage.processes is not None
        assert usage.processes <= 64

    @contract()
    async def test_file_cannot_outgrow_the_disk(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox(limits=DevboxLimits(disk_bytes=8 * 1024**2))
        result = await yard.run(devbox, "head -c 20000000 /dev/zero > big; stat -c %s big")
        assert int(result.stdout) <= 8 * 1024**2

    @contract()
    async def test_a_killed_zygote_costs_nothing(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        running = await yard.begin(devbox, "read line; echo got $line; exit 4", attach_stdin=True)
        assert isinstance(yard.driver, NativeDriver)
        zygote = yard.driver._zygote._process
        assert zygote is not None
        zygote.kill()
        other = await yard.devbox()
        assert await yard.text(other, "echo new") == "new"
        assert await yard.text(devbox, "echo old") == "old"
        assert await yard.driver.control(devbox, running.id, Stdin(b"hello\n"))
        result = await yard.finish(running)
        assert (result.stdout, result.status.exit_status) == (b"got hello\n", 4)

    @contract()
    async def test_a_stopped_zygote_is_replaced(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        assert isinstance(yard.driver, NativeDriver)
        zygote = yard.driver._zygote._process
        assert zygote is not None
        zygote.send_signal(signal.SIGSTOP)
        others = await asyncio.gather(*(yard.devbox() for _ in range(3)))
        for each in (devbox, *others):
            assert await yard.text(each, "echo well") == "well"
        zygote = yard.driver._zygote._process
        assert zygote is not None
        # And one that is stopped when the driver closes does not keep it from that.
        zygote.send_signal(signal.SIGSTOP)

    @contract()
    async def test_a_devbox_that_loses_its_first_process_is_reported(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        held = FirstProcess.load(yard.specs[devbox].folder)
        assert held is not None
        os.kill(held.pid, signal.SIGKILL)
        async with asyncio.timeout(30):
            async for event in yard.driver.events():
                assert event == DevboxEnded(devbox, "health_check_failed", "its first process was killed")
                break

    @contract()
    async def test_sixty_layers_mount(self, yard: DriverFixture) -> None:
        layers = []
        for number in range(60):
            layer = yard.folder / f"a-layer-with-a-rather-long-name-to-fill-the-page-of-options-{number:02}"
            layer.mkdir()
            (layer / f"file{number}").touch()
            layers.append(layer)
        devbox = await yard.devbox(rootfs=Rootfs((*layers, *yard.rootfs.layers), yard.rootfs.host_dirs))
        assert await yard.text(devbox, "ls /file* | wc -l") == "60"

    @contract()
    async def test_two_devboxes_share_no_ids_where_there_is_a_range_for_each(
        self, yard: DriverFixture
    ) -> None:
        first, second = await yard.devbox(), await yard.devbox()
        maps = [await yard.text(devbox, "cat /proc/self/uid_map") for devbox in (first, second)]
        if self.mode == "root-idmap":
            assert maps[0] != maps[1]
            assert all(int(text.split()[1]) >= 1_000_000 for text in maps)

    @contract(Capability.SUDO)
    async def test_sudo_makes_a_user_root(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        assert await yard.text(devbox, "id -u", user="user") == "1000"
        assert await yard.text(devbox, "sudo -n id -u", user="user") == "0"

    @contract()
    async def test_command_lines_of_the_machinery_show_no_paths(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        assert await yard.text(devbox, "tr '\\0' ' ' < /proc/1/cmdline") == "benchyard"


def _descriptors() -> set[str]:
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(str(each.readlink()))
    return found


def test_a_mode_this_user_cannot_have_is_refused_by_name(tmp_path: Path) -> None:
    async def enter() -> None:
        await NativeDriver(
            tmp_path / "driver", {"mode": "rootless-range" if os.getuid() == 0 else "root"}
        ).__aenter__()

    with pytest.raises(UsageError, match="possible: "):
        asyncio.run(enter())


def test_a_layer_that_is_not_there_names_the_step_and_leaves_no_process(tmp_path: Path) -> None:
    async def start() -> None:
        async with NativeDriver(tmp_path / "driver", {}) as driver:
            folder = tmp_path / "devbox"
            folder.mkdir(mode=0o700)
            spec = DevboxSpec("dbx_1", folder, Rootfs((tmp_path / "missing",)))
            try:
                await driver.start(spec)
            finally:
                assert await driver.find(spec) is False

    with pytest.raises(StartFailed) as caught:
        asyncio.run(start())
    assert caught.value.details["step"] in ("overlay", "idmapped layers")
    assert caught.value.details["remedy"]
