"""A store with a small base image of busybox, and a builder on it."""

import asyncio
import secrets
import shutil
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from benchyard.devboxes.local_trees import LocalTrees
from benchyard.hosts.build_cgroups import BuildCgroups
from benchyard.images.builders.base import Builder, BuildRecipe, BuiltImage
from benchyard.images.builders.choice import BuilderChoice, open_builder
from benchyard.images.store import ImageIdentity, ImageStore
from benchyard.testing.container_engine import RunningEngine, missing
from tests.images.conftest import make_machine

T = TypeVar("T")
BASE = "busybox-local"
AUTO = BuilderChoice()


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@pytest.fixture(scope="session")
def busybox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root filesystem of one static program."""
    program = shutil.which("busybox")
    assert program, "the tests need busybox: make setup installs busybox-static"
    root = tmp_path_factory.mktemp("busybox") / "rootfs"
    for name in ("bin", "etc", "root", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(program, root / "bin/busybox")
    for applet in subprocess.run(
        [program, "--list"], capture_output=True, text=True, check=True
    ).stdout.split():
        if applet != "busybox":
            (root / "bin" / applet).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "tmp").chmod(0o1777)
    return root


class Yard:
    """A store, its builder and what the last build said; every call is a run of its own."""

    def __init__(self, folder: Path, machine: Path, wanted: BuilderChoice = AUTO) -> None:
        self.folder = folder
        self.machine = machine
        self.wanted = wanted
        self.lines: list[str] = []

    async def opened(self) -> tuple[ImageStore, Builder]:
        store = ImageStore(self.folder, LocalTrees(), root=self.machine)
        await store.open()
        groups = BuildCgroups(self.folder)
        groups.clear()
        return store, await open_builder(store, self.folder, LocalTrees(), groups, self.wanted)

    def do(self, work: Callable[[ImageStore, Builder], Coroutine[Any, Any, T]]) -> T:
        async def whole() -> T:
            return await work(*await self.opened())

        return asyncio.run(whole())

    def build(self, dockerfile: str, **options: Any) -> BuiltImage:
        self.lines.clear()
        recipe = BuildRecipe(dockerfile, **options)
        return self.do(
            lambda _store, builder: builder.build(recipe, ImageIdentity("made"), self.lines.append)
        )

    def places(self) -> list[Path]:
        """Where something of a build could lie: our folder, and the engine's where it has its own."""
        host = self.wanted.docker_host
        return [self.folder, *([Path(host.removeprefix("unix://")).parent / "storage"] if host else [])]

    def layers(self, built: BuiltImage) -> list[Path]:
        return [self.folder / "layers" / name for name in built.image.layers]


@pytest.fixture(scope="session")
def docker() -> Iterator[str]:
    """A Docker engine of the tests' own; its path is short, as a socket's must be."""
    if reason := missing("docker"):
        pytest.skip(f"no Docker engine for the builder: {reason}")
    with RunningEngine(Path(f"/var/tmp/builder-{secrets.token_hex(4)}"), "docker") as engine:
        yield f"unix://{engine.socket}"


@pytest.fixture(scope="module", params=["buildah", "docker"])
def yard(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, busybox: Path) -> Yard:
    """A store that has the base image, for the tests of one file: handing a base over takes a second."""
    folder = tmp_path_factory.mktemp("Yard__of Tests")
    host = request.getfixturevalue("docker") if request.param == "docker" else None
    wanted = BuilderChoice(request.param, host)
    made = Yard(folder / "images", make_machine(folder / "machine"), wanted)
    made.do(lambda store, _builder: store.import_archive(busybox, BASE))
    return made
