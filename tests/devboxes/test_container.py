"""The container driver: what it asks of an engine, what it keeps there, and what it leaves there."""

import asyncio
import os
import shutil
import signal
import socket
from pathlib import Path

import pytest

from benchyard.devboxes.base import Capability, DevboxEnded, Driver, Rootfs
from benchyard.devboxes.container import engine_client
from benchyard.devboxes.container.containers import DEVBOX_LABEL, check_runtime
from benchyard.devboxes.container.driver import ContainerDriver
from benchyard.devboxes.container.engine_client import ContainerEngine, EngineInfo
from benchyard.devboxes.container.images import LAYERS_LABEL
from benchyard.devboxes.shared import devbox_index
from benchyard.devboxes.shared.running_devbox import FirstProcess
from benchyard.errors import DevboxGone, NotFound, StartFailed, UsageError
from benchyard.testing.container_engine import RunningEngine
from benchyard.testing.contracts.driver_fixture import DriverFixture, DriverSuite, contract, eventually


class WithPodman(DriverSuite):
    """Tests of the driver with an engine of our own."""

    engine: RunningEngine
    options: dict[str, str]

    @pytest.fixture(autouse=True)
    def _engine(self, podman: RunningEngine) -> None:
        self.engine = podman
        self.options = {"socket": str(podman.socket)}

    def make_driver(self, folder: Path) -> Driver:
        return ContainerDriver(folder, self.options)

    def containers(self) -> list[dict[str, object]]:
        with self.engine.client() as client:
            found: list[dict[str, object]] = client.get("/containers/json", params={"all": "true"}).json()
        return found

    def images(self) -> list[str]:
        """The layers of every image of ours."""
        with self.engine.client() as client:
            return [image["Labels"][LAYERS_LABEL] for image in client.get("/images/json").json()]


class TestContainerDriver(WithPodman):
    @contract()
    async def test_says_which_engine_it_found_and_what_is_missing(self, yard: DriverFixture) -> None:
        report = yard.driver.report()
        assert report.mode.startswith("podman ")
        assert str(self.engine.socket) in report.mode
        assert "--driver-option image=" in report.missing["host_view"]
        assert Capability.HOST_VIEW not in yard.driver.capabilities

    @contract()
    async def test_a_view_of_the_machine_is_refused_with_a_remedy(self, yard: DriverFixture) -> None:
        spec = yard.spec(rootfs=Rootfs(yard.rootfs.layers, ("usr",)))
        with pytest.raises(StartFailed, match="--driver-option image="):
            await yard.driver.start(spec)
        assert not spec.changes.exists()
        assert self.containers() == []

    @contract()
    async def test_an_image_is_loaded_once_and_goes_with_its_layers(self, yard: DriverFixture) -> None:
        layer = yard.folder / "layer"
        (layer / "opt").mkdir(parents=True)
        one, other = await asyncio.gather(*(yard.devbox(rootfs=yard.on_top(layer)) for _ in range(2)))
        assert sum(str(layer) in layers for layers in self.images()) == 1
        for devbox in (one, other):
            await yard.driver.stop(devbox)
            await yard.driver.storage.discard(devbox)
        assert sum(str(layer) in layers for layers in self.images()) == 1
        shutil.rmtree(layer)
        await eventually(lambda: not any(str(layer) in layers for layers in self.images()), "its removal")

    @contract()
    async def test_an_image_that_an_earlier_server_loaded_goes_with_its_layers(
        self, yard: DriverFixture
    ) -> None:
        devbox, layer = await self.layered(yard)
        await yard.renew()
        assert await yard.driver.find(yard.specs[devbox])
        await yard.driver.stop(devbox)
        await yard.driver.storage.discard(devbox)
        shutil.rmtree(layer)
        await eventually(lambda: not any(str(layer) in layers for layers in self.images()), "its removal")

    @contract()
    async def test_an_image_that_was_in_use_goes_later(self, yard: DriverFixture) -> None:
        devbox, layer = await self.layered(yard)
        shutil.rmtree(layer)
        assert isinstance(yard.driver, ContainerDriver)
        await yard.driver._images.sweep()
        assert any(str(layer) in layers for layers in self.images())
        await yard.driver.stop(devbox)
        await yard.driver.storage.discard(devbox)
        await eventually(lambda: not any(str(layer) in layers for layers in self.images()), "its removal")

    async def layered(self, yard: DriverFixture) -> tuple[str, Path]:
        """A devbox, and a layer of its own that its image has."""
        layer = yard.folder / "layer"
        (layer / "opt").mkdir(parents=True)
        return await yard.devbox(rootfs=yard.on_top(layer)), layer

    @contract()
    async def test_layers_hide_and_replace_what_lies_below(self, yard: DriverFixture) -> None:
        first = await yard.devbox()
        await yard.text(
            first,
            "cd /opt; mkdir d e; touch d/below e/below gone; chown 7:8 d; chmod 2751 d;"
            "ln /opt/gone /opt/linked; ln -s gone /opt/link; : > '/opt/a b\\ü'",
        )
        low = await yard.layer(first)
        second = await yard.devbox(rootfs=yard.on_top(low))
        await yard.text(second, "rm /opt/gone /opt/d/below; rm -r /opt/e; mkdir /opt/e; touch /opt/e/new")
        third = await yard.devbox(rootfs=yard.on_top(await yard.layer(second), low))
        listed = await yard.text(third, "cd /opt; find . | sort; stat -c '%u %g %a' d; readlink link")
        assert listed == ".\n./a b\\ü\n./d\n./e\n./e/new\n./link\n./linked\n7 8 2751\ngone"

    @contract()
    async def test_a_disk_that_was_removed_from_the_engine_is_missed(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.driver.stop(devbox)
        await yard.driver.storage.discard(devbox)
        with pytest.raises(StartFailed, match="removed from the engine"):
            await yard.driver.start(yard.specs[devbox])

    @contract()
    async def test_nothing_of_ours_can_be_changed_or_called_from_inside(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        place = "/dev/.benchyard"
        assert await yard.text(devbox, f"ls {place}/meeting") == ""
        for attempt in (
            f"touch {place}/meeting/socket",
            f"echo x > {place}/python/loader",
            "echo x > /proc/1/exe",
            "readlink /proc/1/fd/*",
            "cat /proc/1/environ /proc/1/maps",
            f"umount {place}/python",
            f"mount -o remount,rw {place}/python",
        ):
            assert (await yard.run(devbox, attempt)).status.exit_status != 0, attempt
        async with yard.driver.storage.changes(yard.specs[devbox]) as changes:
            assert not (changes / "dev").exists()

    @contract()
    async def test_no_library_of_the_image_gets_into_the_first_process(self, yard: DriverFixture) -> None:
        layer = yard.folder / "layer"
        for path in ("etc/ld.so.preload", "etc/ld.so.cache", "evil.so"):
            (layer / path).parent.mkdir(parents=True, exist_ok=True)
            (layer / path).write_text("/evil.so\n")
        devbox = await yard.devbox(rootfs=yard.on_top(layer))
        held = FirstProcess.load(yard.specs[devbox].folder)
        assert held is not None
        maps = Path(f"/proc/{held.pid}/maps").read_text().splitlines()
        files = {line.split(None, 5)[5] for line in maps if "/" in line}
        assert files
        assert all(file.startswith("/dev/.benchyard/python/") for file in files), files
        # The loader of the image itself reads it, and complains: the file was there to be found.
        assert b"evil.so" in (await yard.run(devbox, argv=("/bin/true",))).stderr
        # And ours would have complained, too, had it looked.
        with self.engine.client() as client:
            name = next(found["Id"] for found in self.containers())
            said = client.get(f"/containers/{name}/logs", params={"stdout": True, "stderr": True}).content
        assert said == b""

    @contract()
    async def test_links_in_place_of_mount_points_are_refused(self, yard: DriverFixture) -> None:
        outside = yard.folder / "outside"
        outside.mkdir()
        for name in ("dev", "proc", "sys"):
            layer = yard.folder / f"with-{name}"
            layer.mkdir()
            (layer / name).symlink_to(outside)
            with pytest.raises(StartFailed, match=f"/{name} of the image"):
                await yard.devbox(rootfs=yard.on_top(layer))
        assert list(outside.iterdir()) == []

    @contract()
    async def test_ports_inside_are_reached(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        listen = (
            "import socket; s = socket.create_server(('127.0.0.1', 0)); "
            "print(s.getsockname()[1], flush=True); "
            "c = s.accept()[0]; c.sendall(b'hello ' + c.recv(9)); c.close()"
        )
        command = await yard.begin(devbox, argv=("/usr/bin/python3", "-c", listen))
        await yard.shows(command, b"\n")
        port = int((command.folder / "stdout").read_text())
        with socket.socket(fileno=await yard.driver.connect(devbox, port)) as connection:
            # The descriptor comes as the event loop needs it: one that does not wait.
            connection.settimeout(30)
            connection.sendall(b"there")
            assert await asyncio.to_thread(connection.recv, 100) == b"hello there"
        await yard.finish(command)
        with pytest.raises(NotFound):
            await yard.driver.connect(devbox, port)
        await yard.driver.stop(devbox)
        with pytest.raises(DevboxGone):
            await yard.driver.connect(devbox, port)

    @contract()
    async def test_the_end_of_the_first_process_is_reported(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        held = FirstProcess.load(yard.specs[devbox].folder)
        assert held is not None
        os.kill(held.pid, signal.SIGKILL)
        event = await asyncio.wait_for(anext(yard.driver.events()), 30)
        assert isinstance(event, DevboxEnded)
        assert (event.devbox_id, event.reason) == (devbox, "health_check_failed")
        await yard.driver.start(yard.specs[devbox])
        assert await yard.text(devbox, "echo again") == "again"

    @contract()
    async def test_half_made_devbox_of_a_killed_server_is_cleared(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        spec = yard.specs[devbox]
        await yard.driver.stop(devbox)
        await yard.driver.trees.remove(spec.changes)
        running = await yard.devbox()
        (yard.specs[running].folder / "box.json").unlink()
        await yard.renew()
        assert [found["Labels"][DEVBOX_LABEL] for found in self.containers()] == [running]  # type: ignore[index]
        assert not await yard.driver.find(yard.specs[running])
        assert [found["State"] for found in self.containers()] == ["exited"]

    @contract()
    async def test_an_image_of_the_engine_is_exported(self, yard: DriverFixture) -> None:
        target = yard.folder / "image.tar"
        with pytest.raises(NotFound):
            await yard.driver.storage.export("no-such-image", target)
        await yard.devbox()
        with self.engine.client() as client:
            tag = client.get("/images/json").json()[0]["RepoTags"][0]
        await yard.driver.storage.export(tag, target)
        assert target.stat().st_size > 1_000_000


class TestLease(WithPodman):
    @pytest.fixture(autouse=True)
    def _short(self, _engine: None) -> None:
        self.options = {**self.options, "lease": "1"}

    @contract()
    async def test_ends_devboxes_whose_server_is_gone_frozen_or_not(self, yard: DriverFixture) -> None:
        devboxes = [await yard.devbox() for _ in range(2)]
        await yard.driver.freeze(devboxes[0])
        notes = [FirstProcess.load(yard.specs[devbox].folder) for devbox in devboxes]
        await yard.driver.__aexit__(None, None, None)
        await eventually(lambda: not any(devbox_index.is_alive(held) for held in notes if held), "their ends")
        await yard.driver.__aenter__()


def about(name: str, default: str = "runc") -> EngineInfo:
    known = ("crun", "kata", "runc", "runsc")
    return EngineInfo(name, "1", "overlay", False, known, default, {}, True)


@pytest.mark.parametrize(
    ("engine", "wanted", "told"),
    [
        (about("podman"), "made-up", "no runtime 'made-up'; it has: crun, kata, runc, runsc"),
        (about("docker"), "runsc", "a kernel of its own"),
        (about("podman"), "kata", "a kernel of its own"),
        (about("docker", "runsc"), None, "a kernel of its own"),
        # It would run, but not with what was asked for.
        (about("podman"), "crun", 'runtime = "crun" into .engine. of its containers.conf'),
    ],
)
def test_a_runtime_that_cannot_be_is_an_error_that_says_what_to_do(
    engine: EngineInfo, wanted: str | None, told: str
) -> None:
    with pytest.raises(StartFailed, match=told):
        check_runtime(engine, wanted)


def test_a_runtime_that_shares_the_kernel_is_taken() -> None:
    for engine, wanted in (
        (about("docker"), "crun"),
        (about("podman"), "runc"),
        (about("podman", "crun"), None),
    ):
        check_runtime(engine, wanted)


def test_no_engine_is_an_error_that_says_how_to_start_one(tmp_path: Path) -> None:
    async def enter(path: Path) -> None:
        async with ContainerDriver(tmp_path / "driver", {"socket": str(path)}):
            pass

    if os.geteuid() != 0:
        pytest.skip("the driver is for root alone")
    with pytest.raises(StartFailed, match="systemctl start docker") as caught:
        asyncio.run(enter(tmp_path / "nothing.sock"))
    assert str(tmp_path / "nothing.sock") in caught.value.message


def test_server_that_is_not_an_engine_is_an_error(tmp_path: Path) -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
        writer.close()

    async def look() -> None:
        async with await asyncio.start_unix_server(answer, tmp_path / "s"):
            engine = ContainerEngine(tmp_path / "s")
            try:
                await engine.open()
            finally:
                await engine.close()

    with pytest.raises(StartFailed, match="is not a container engine"):
        asyncio.run(look())


def test_sockets_are_looked_for_in_order(tmp_path: Path) -> None:
    find = engine_client.find_socket
    assert find("/a", {"DOCKER_HOST": "unix:///b"}) == Path("/a")
    assert find(None, {"DOCKER_HOST": "unix:///b"}) == Path("/b")
    with pytest.raises(UsageError, match="not on this machine"):
        find(None, {"DOCKER_HOST": "tcp://elsewhere:2375"})
    (tmp_path / "podman").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "podman" / "podman.sock"))
        usual = engine_client.usual_sockets({"XDG_RUNTIME_DIR": str(tmp_path)})
        assert tmp_path / "podman" / "podman.sock" in usual
        if not any(path.is_socket() for path in usual[:-1]):
            assert find(None, {"XDG_RUNTIME_DIR": str(tmp_path)}) == usual[-1]
