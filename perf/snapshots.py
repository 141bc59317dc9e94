"""`snapshots`: devboxes from deep chains of snapshots, and the disk that many devboxes of one image take."""

import os
import secrets
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchyard.testing.server import RunningServer
from perf.api import Api
from perf.machine import MB
from perf.measure import Figure, interleave
from perf.options import Options
from perf.page import heading, table

_DEPTHS = (1, 20, 50)
_IMAGE_MB = 1024
_BOXES = 100
_CHANGED_MB = 1
_LAYERS = 20
_BUILD_SECONDS = 600.0
_LAYERED = f"{_LAYERS} layers of a blueprint"
_TARGETS = {_LAYERED: "at most 1.3x", "50 deep": "at most 2x"}


def measure(folder: Path, options: Options) -> list[str]:
    """Grow a chain and start from its links, side by side with the default image; then fill a disk."""
    serving = ["--driver", "native", "--import-from", str(folder)]
    with RunningServer(folder / "data", serving) as server:
        api = Api(server)
        chain, taken = _grown(api, max(_DEPTHS))
        cycles: dict[str, Callable[[], object]] = {"default image": api.cycle}
        for depth in _DEPTHS:
            cycles[f"{depth} deep"] = partial(api.cycle, snapshot_id=chain[depth - 1])
        cycles[_LAYERED] = partial(api.cycle, blueprint_id=_layered(api, folder))
        starts = interleave(cycles, options.rounds)
        api.close()
        disk = _disk(server, folder)
    return [heading(f"{options.rounds} rounds, interleaved."), "", *_report(starts, taken, disk)]


def _grown(api: Api, depth: int) -> tuple[list[str], list[float]]:
    """Snapshots, each of a devbox from the one before, and the milliseconds each took to be complete."""
    made: list[str] = []
    taken = []
    for number in range(depth):
        devbox = api.create(**({"snapshot_id": made[-1]} if made else {}))
        api.run(devbox, f"mkdir ~/d{number}; for i in $(seq 20); do echo $i > ~/d{number}/$i; done")
        begin = time.perf_counter()
        made.append(str(api.post(f"/v1/devboxes/{devbox}/snapshot_disk")["id"]))
        taken.append((time.perf_counter() - begin) * 1000)
        api.end(devbox)
    return made, taken


def _layered(api: Api, folder: Path) -> str:
    """A blueprint whose Dockerfile makes a layer in each of its steps."""
    api.post("/v1/images/import", {"name": "small", "path": str(_small(folder / "small"))})
    steps = "".join(f"RUN echo {number} > /layer-{number}\n" for number in range(_LAYERS))
    made = api.post("/v1/blueprints", {"name": "layered", "dockerfile": f"FROM small\n{steps}"})["id"]
    deadline = time.monotonic() + _BUILD_SECONDS
    while (view := api.get(f"/v1/blueprints/{made}"))["status"] != "build_complete":
        if view["status"] == "failed" or time.monotonic() > deadline:
            raise RuntimeError(f"no blueprint of {_LAYERS} layers: {view}")
        time.sleep(0.1)
    return str(made)


def _small(root: Path) -> Path:
    """A root filesystem of next to nothing."""
    (root / "bin").mkdir(parents=True)
    (root / "srv").mkdir()
    (root / "etc").mkdir()
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    shutil.copy("/bin/busybox", root / "bin" / "busybox")
    for name in ("sh", "head", "true", "echo"):
        (root / "bin" / name).symlink_to("busybox")
    return root


def _disk(server: RunningServer, folder: Path) -> float:
    """Megabytes that devboxes of one image take, beside the image, when each changes a little."""
    root = _small(folder / "rootfs")
    with (root / "srv" / "big").open("wb") as file:
        for _ in range(_IMAGE_MB):
            file.write(secrets.token_bytes(1024 * 1024))
    api = Api(server)
    api.post("/v1/images/import", {"name": "big", "path": str(root)})
    shutil.rmtree(root)
    before = _used(server.data)
    boxes = [api.create(blueprint_name="big") for _ in range(_BOXES)]
    for box in boxes:
        api.run(box, f"head -c {_CHANGED_MB * 1000 * 1000} /dev/urandom > ~/changed")
    used = _used(server.data) - before
    for box in boxes:
        api.end(box)
    api.close()
    return used / MB


def _used(folder: Path) -> int:
    """Bytes on disk below a folder, files of several names once."""
    seen = {}
    for place, _folders, files in os.walk(folder):
        for name in files:
            status = os.lstat(os.path.join(place, name))  # noqa: PTH118  quicker, and there are many
            seen[status.st_ino] = status.st_blocks * 512
    return sum(seen.values())


def _report(starts: dict[str, Figure], taken: list[float], disk: float) -> list[str]:
    floor = starts["default image"].p50
    rows = [
        (
            figure.name,
            f"{figure.p50:.1f}",
            f"{figure.p95:.1f}",
            f"{figure.p50 / floor:.2f}x",
            _TARGETS.get(name, ""),
        )
        for name, figure in starts.items()
    ]
    snapshot = Figure("snapshot", tuple(taken))
    return [
        "### Create from a snapshot or a blueprint, first command, shut down",
        *table(("started from", "p50 ms", "p95 ms", "to the default image", "target"), rows),
        "",
        f"A snapshot of 20 small files took {snapshot.p50:.0f} ms (p50) to be safe on disk; the slowest of "
        f"{len(taken)}, merging included, {max(taken):.0f} ms.",
        "",
        "### Disk",
        "",
        f"{_BOXES} devboxes of one image of {_IMAGE_MB} MiB, each of which wrote {_CHANGED_MB} MB, took "
        f"{disk:.0f} MB together beside the image.",
    ]
