"""`build`: a Dockerfile built again after a change in its last line, side by side with plain buildah."""

import asyncio
import itertools
import os
import shutil
import subprocess
from pathlib import Path

from benchyard.devboxes.local_trees import LocalTrees
from benchyard.hosts.build_cgroups import BuildCgroups
from benchyard.images.builders.base import Builder, BuildRecipe
from benchyard.images.builders.choice import open_builder
from benchyard.images.builders.engine_storage import EngineStorage
from benchyard.images.store import ImageIdentity, ImageStore
from perf.measure import interleave
from perf.options import Options
from perf.page import heading, table

_BASE = "perf-base"
_FILES = 500
_DOCKERFILE = """FROM {base}
RUN mkdir -p /srv/app && for n in 0 1 2 3 4 5 6 7 8 9; do cp -r /usr/share/data /srv/app/$n; done
ENV MODE=fast
COPY . /srv/app/context
RUN ls -R /srv/app | wc -l > /srv/count
WORKDIR /srv/app
RUN echo {number} > /srv/number
"""
_CONFIGURATION = '[containers]\ndefault_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]\n[engine]\n'


def measure(folder: Path, options: Options) -> list[str]:
    """Run both and return the lines of the report."""
    root, context = _root(folder / "rootfs"), folder / "context"
    context.mkdir()
    for number in range(50):
        (context / f"file{number}").write_text("x" * 10_000)
    rounds = max(5, options.rounds // 2)
    with asyncio.Runner() as runner:
        ours = _Ours(runner, folder / "images", root, context)
        ours.build()
        plain = _Plain(folder / "plain", folder / "images" / "builder" / "storage", context)
        figures = interleave({"buildah build": plain.build, "benchyard": ours.build}, rounds)
    rows = [
        (name, f"{each.p50:.0f}", f"{each.p95:.0f}", f"{each.p50 / figures['buildah build'].p50:.2f}x")
        for name, each in figures.items()
    ]
    note = f"{rounds} rounds, interleaved; six instructions, the last one new each time."
    return [heading(note), "", *table(("contender", "p50 ms", "p95 ms", "to buildah"), rows)]


class _Plain:
    """`buildah build` as a person types it, on a storage of its own that has the very same base."""

    def __init__(self, folder: Path, theirs: Path, context: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._context = context
        self._numbers = itertools.count()
        (folder / "containers.conf").write_text(f'{_CONFIGURATION}cgroup_manager = "cgroupfs"\n')
        base = EngineStorage(theirs)
        (name,) = (name for name in base.names() if name.startswith("localhost/benchyard/"))
        # By a short name: buildah makes the image's out of it, and not every folder's can be one.
        self._call("push", name, "oci:base", root=theirs)
        image = self._call("pull", "--quiet", "oci:base")
        self._call("tag", image, f"localhost/{_BASE}")

    def build(self) -> None:
        text = _DOCKERFILE.format(base=f"localhost/{_BASE}", number=next(self._numbers))
        (self._folder / "Dockerfile").write_text(text)
        isolation = ["--isolation", "oci", "--runtime", "runc", "--network", "host", "--format", "docker"]
        file = ["--file", str(self._folder / "Dockerfile")]
        self._call("build", "--layers", *isolation, *file, str(self._context))

    def _call(self, *arguments: str, root: Path | None = None) -> str:
        places = ["--root", str(root or self._folder / "root"), "--runroot", str(self._folder / "run")]
        environment = {**os.environ, "CONTAINERS_CONF": str(self._folder / "containers.conf")}
        command = ["buildah", *places, "--storage-driver", "overlay", *arguments]
        return subprocess.run(
            command, env=environment, cwd=self._folder, capture_output=True, text=True, check=True
        ).stdout.strip()


class _Ours:
    """The builder as the server calls it, image in the store and all."""

    def __init__(self, runner: asyncio.Runner, folder: Path, root: Path, context: Path) -> None:
        self._runner = runner
        self._context = context
        self._numbers = itertools.count()
        self._builder = runner.run(self._opened(folder, root))

    def build(self) -> None:
        text = _DOCKERFILE.format(base=_BASE, number=next(self._numbers))
        recipe = BuildRecipe(text, context=self._context)
        lines: list[str] = []
        self._runner.run(self._builder.build(recipe, ImageIdentity("measured"), lines.append))

    async def _opened(self, folder: Path, root: Path) -> Builder:
        store = ImageStore(folder, LocalTrees())
        await store.open()
        await store.import_archive(root, _BASE)
        return await open_builder(store, folder, LocalTrees(), BuildCgroups(folder))


def _root(root: Path) -> Path:
    """Busybox and some weight."""
    busybox = shutil.which("busybox")
    if busybox is None:
        raise RuntimeError("busybox is missing: apt-get install busybox-static")
    for name in ("bin", "etc", "tmp", "usr/share/data"):
        (root / name).mkdir(parents=True)
    shutil.copy(busybox, root / "bin/busybox")
    for applet in ("sh", "mkdir", "cp", "ls", "wc", "echo"):
        (root / "bin" / applet).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    for number in range(_FILES):
        (root / f"usr/share/data/file{number}").write_bytes(os.urandom(4096))
    return root
