"""How builds end: whole, whatever ends them, and what is asked for twice at once is done once."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchyard.devboxes.shared import cgroups
from benchyard.errors import BuildFailed
from benchyard.images.builders.base import BuildLimits, BuildRecipe, BuiltImage
from benchyard.images.store import ImageIdentity
from tests.faults.chaos import kill
from tests.images.builders.conftest import BASE, Yard

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="buildah as an ordinary user needs ranges of ids")

PATIENCE_SECONDS = 60.0
NAP = f"FROM {BASE}\nRUN (setsid sleep 98765 &) ; echo asleep ; sleep 98765\n"


def processes(yard: Yard) -> dict[int, str]:
    """Command lines of everything a build of this yard runs, by process id."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            mark = f"BENCHYARD_BUILDER={yard.folder}" in (path / "environ").read_text(errors="replace")
            line = (path / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if mark or "98765" in line:
            found[int(path.name)] = line
    return found


def is_soon_clean(yard: Yard) -> bool:
    """Whether what was killed is gone in a moment: the kernel takes its time with a busy machine."""
    deadline = time.monotonic() + 30
    while not is_clean(yard) and time.monotonic() < deadline:
        time.sleep(0.1)
    return is_clean(yard)


def is_clean(yard: Yard) -> bool:
    """Whether nothing of a build is left: no process, mount, container or folder."""
    builder = yard.folder / "builder"
    containers = builder / "storage/overlay-containers/containers.json"
    return (
        not processes(yard)
        and str(builder) not in Path("/proc/self/mountinfo").read_text()
        and list((builder / "work").iterdir()) == []
        and cgroups.find_groups(cgroups.owner(yard.folder)) == []
        and (not containers.exists() or containers.read_text() in ("", "[]"))
        and nameless(yard) == []
    )


def nameless(yard: Yard) -> list[str]:
    """Images that a Docker engine keeps though nobody could name them, and those of here-documents."""
    if yard.wanted.kind != "docker":
        return []
    command = ["docker", "--host", str(yard.wanted.docker_host), "images", "--format", "{{.Repository}}"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return [name for name in told if "/base-" not in name]


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.05)


def test_time_that_is_up_ends_every_process(yard: Yard) -> None:
    with pytest.raises(BuildFailed, match="took longer than 6 seconds"):
        yard.build(NAP, limits=BuildLimits(seconds=6))
    assert is_soon_clean(yard)


def test_a_disk_that_fills_up_ends_it(yard: Yard) -> None:
    dockerfile = f"FROM {BASE}\nRUN dd if=/dev/zero of=/big bs=1M count=200; sleep 98765\n"
    with pytest.raises(BuildFailed, match="more than the 50000000 it may") as caught:
        yard.build(dockerfile, limits=BuildLimits(disk_bytes=50_000_000))
    assert caught.value.reason == "out_of_disk"
    assert is_soon_clean(yard)


async def napping(yard: Yard) -> "asyncio.Task[BuiltImage]":
    """A build that has come as far as its nap."""
    _, builder = await yard.opened()
    asleep = asyncio.Event()

    def told(line: str) -> None:
        if line == "asleep":
            asleep.set()

    task = asyncio.create_task(builder.build(BuildRecipe(NAP), ImageIdentity("never"), told))
    await asyncio.wait_for(asleep.wait(), PATIENCE_SECONDS)
    assert len(processes(yard)) >= 2
    return task


def test_cancelled_build_leaves_nothing(yard: Yard) -> None:
    async def scene() -> None:
        task = await napping(yard)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert is_soon_clean(yard)

    asyncio.run(scene())


def test_a_builder_that_is_killed_is_reported_and_leaves_nothing(yard: Yard) -> None:
    if yard.wanted.kind == "docker":
        pytest.skip("the engine is not ours to kill")

    async def scene() -> None:
        task = await napping(yard)
        for pid, line in processes(yard).items():
            if "buildah" in line.split()[0]:
                kill(pid)
        with pytest.raises(BuildFailed, match="the engine ended with status"):
            await asyncio.wait_for(task, PATIENCE_SECONDS)
        assert is_soon_clean(yard)

    asyncio.run(scene())
    assert yard.build(f"FROM {BASE}\nRUN true\n").image.layers


KILLED = """
import asyncio, sys
from pathlib import Path
from benchyard.images.builders.base import BuildRecipe
from benchyard.images.builders.choice import BuilderChoice
from benchyard.images.store import ImageIdentity
from tests.images.builders.conftest import Yard

async def main():
    folder, machine, dockerfile, kind, host = sys.argv[1:]
    _, builder = await Yard(Path(folder), Path(machine), BuilderChoice(kind, host or None)).opened()
    await builder.build(BuildRecipe(dockerfile), ImageIdentity("never"), lambda line: print(line, flush=True))

asyncio.run(main())
"""


def test_a_server_that_is_killed_leaves_no_process_and_the_next_one_clears_the_rest(yard: Yard) -> None:
    wanted = [yard.wanted.kind, yard.wanted.docker_host or ""]
    command = [sys.executable, "-c", KILLED, str(yard.folder), str(yard.machine), NAP, *wanted]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        for line in server.stdout:
            if line == "asleep\n":
                break
        server.send_signal(signal.SIGKILL)
        server.wait()
    until(lambda: not processes(yard))
    assert not is_clean(yard)
    built = yard.build(f"FROM {BASE}\nRUN true\n")
    assert built.image.layers
    assert is_soon_clean(yard)


def test_the_same_content_asked_for_at_once_is_built_once(yard: Yard, tmp_path: Path) -> None:
    contexts = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("same")
        contexts.append(tmp_path / name)
    dockerfile = f"FROM {BASE}\nCOPY file /\nRUN cat /proc/sys/kernel/random/uuid > /unique; sleep 1\n"

    async def scene() -> None:
        _, builder = await yard.opened()
        logs: list[list[str]] = [[], []]
        first, second = await asyncio.gather(
            *(
                builder.build(BuildRecipe(dockerfile, context=context), ImageIdentity("twice"), log.append)
                for context, log in zip(contexts, logs, strict=True)
            )
        )
        assert first.image.id != second.image.id
        assert first.image.layers == second.image.layers
        steps = [[line for line in log if line.startswith("STEP")] for log in logs]
        assert steps[0] == steps[1]
        assert len(steps[0]) == 3

    asyncio.run(scene())


def test_different_builds_run_beside_each_other(yard: Yard) -> None:
    async def scene() -> None:
        _, builder = await yard.opened()
        recipes = [BuildRecipe(f"FROM {BASE}\nRUN echo {n} > /n\nRUN cat /n > /m\n") for n in range(4)]
        made = await asyncio.gather(
            *(builder.build(recipe, ImageIdentity("many"), lambda _line: None) for recipe in recipes)
        )
        assert len({built.image.layers for built in made}) == 4

    asyncio.run(scene())
    assert is_soon_clean(yard)


def test_the_cache_can_be_cleared_and_images_stay(yard: Yard) -> None:
    built = yard.build(f"FROM {BASE}\nRUN echo kept > /kept\n")
    assert yard.do(lambda _store, builder: builder.forget())
    assert not (yard.folder / "builder/storage").exists()
    assert not yard.do(lambda _store, builder: builder.forget())
    kept = next(layer for layer in yard.layers(built) if (layer / "kept").exists())
    assert (kept / "kept").read_text() == "kept\n"
    again = yard.build(f"FROM {BASE}\nRUN echo again > /again\n")
    assert set(again.image.layers) & set(built.image.layers)
