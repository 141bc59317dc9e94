"""Snapshots and images that leave a server as OCI archives, for other engines and for other servers."""

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchyard.client import AsyncClient, Client, Server
from benchyard.errors import Conflict, ImageError, NotFound, UsageError
from benchyard.hosts import leaks
from benchyard.models.devboxes import DevboxRequest
from benchyard.models.snapshots import SnapshotRequest, SnapshotView
from benchyard.testing.server import RunningServer
from tests.api.devbox import eventually

# What a machine without CAP_SYS_RESOURCE, systemd or pure cgroup v2 needs before podman runs at all.
CONFIGURATION = """
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"""
SETUP = """set -e
echo hello > ~/file; ln ~/file ~/link; truncate -s 100M ~/sparse; mkdir -m 700 ~/closed; rm -r /srv/gone"""
LOOK = "cd /home/user; cat link; stat -c '%n %a %u %s' file closed sparse; ls -d /srv/* /bin/sh"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with devboxes that can start from any image."""
    with RunningServer(tmp_path_factory.mktemp("transfers") / "data", ["--driver", "native"]) as running:
        yield running
    assert leaks.find(running.data) == []


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[Client]:
    with Client(Server(server.url, server.key)) as opened:
        yield opened


@pytest.fixture(scope="module")
def image(client: Client, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of an image that holds a shell and little else."""
    root = tmp_path_factory.mktemp("small") / "rootfs"
    (root / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin" / "busybox")
    for name in ("sh", "cat", "stat", "ls", "ln", "mkdir", "truncate", "rm", "echo"):
        (root / "bin" / name).symlink_to("busybox")
    for name in ("srv/gone/deep", "srv/kept"):
        (root / name).mkdir(parents=True)
    for name in ("srv", "srv/gone"):
        (root / name).chmod(0o777)
    client.images.import_path(str(root), "small")
    return "small"


@pytest.fixture(scope="module")
def taken(client: Client, image: str) -> SnapshotView:
    """A snapshot with changes of every kind in it."""
    with client.devboxes.open(DevboxRequest(blueprint_name=image)) as box:
        result = box.run(SETUP)
        assert result.exit_status == 0, result.stderr
        request = SnapshotRequest(name="ready", commit_message="as it was", metadata={"a": "b"})
        return client.snapshots.create(box.id, request)


@pytest.fixture(scope="module")
def archive(client: Client, taken: SnapshotView, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The snapshot as a file."""
    path = tmp_path_factory.mktemp("archives") / "ready.oci"
    passed: list[int] = []
    sizes: list[int] = []
    size = client.snapshots.export(taken.id, path, passed.append, sizes.append)
    assert sizes == [size] == [sum(passed)] == [path.stat().st_size]
    return path


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short path, as podman needs it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="pod") as folder:
        yield Path(folder)
        # Podman leaves its storage mounted on itself in some versions.
        subprocess.run(["umount", "-q", f"{folder}/root/overlay"], check=False)


def looked(client: Client, snapshot: str) -> str:
    """What a devbox from a snapshot sees."""
    with client.devboxes.open(DevboxRequest(snapshot_id=snapshot)) as box:
        result = box.run(LOOK)
        assert result.exit_status == 0, result.stderr
        return result.stdout


def without(program: str) -> bool:
    return shutil.which(program) is None


@pytest.mark.skipif(without("skopeo"), reason="skopeo is not installed: `make setup`")
def test_an_archive_is_what_the_standard_says(archive: Path, taken: SnapshotView) -> None:
    command = ["skopeo", "inspect", "--raw", f"oci-archive:{archive}"]
    manifest = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    notes = manifest["annotations"]
    assert notes["dev.benchyard.name"] == "ready"
    assert notes["dev.benchyard.commit_message"] == "as it was"
    assert json.loads(notes["dev.benchyard.metadata"]) == {"a": "b"}
    assert notes["dev.benchyard.source_devbox_id"] == taken.source_devbox_id
    copy = archive.with_name("copy")
    subprocess.run(
        ["skopeo", "copy", "--quiet", f"oci-archive:{archive}", f"dir:{copy}"],
        check=True,
        env={**os.environ, "TMPDIR": str(archive.parent)},
    )
    assert len(list(copy.iterdir())) == len(manifest["layers"]) + 3


@pytest.mark.skipif(os.geteuid() != 0, reason="rootless podman needs more than this test sets up")
@pytest.mark.skipif(without("podman") or without("runc"), reason="podman or runc is not installed")
def test_podman_loads_and_runs_it_as_it_was(
    client: Client, archive: Path, taken: SnapshotView, short: Path
) -> None:
    (short / "containers.conf").write_text(CONFIGURATION)
    environment = {**os.environ, "CONTAINERS_CONF": str(short / "containers.conf")}
    podman = ["podman", "--root", str(short / "root"), "--runroot", str(short / "run")]

    def call(*arguments: str) -> str:
        done = subprocess.run(
            [*podman, *arguments], capture_output=True, text=True, check=False, env=environment, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        name = call("load", "-i", str(archive)).split()[-1]
        assert name == f"localhost/benchyard/{taken.id.lower().replace('_', '-')}:latest"
        ran = call("run", "--rm", "--network", "none", "--user", "user", name, "/bin/sh", "-c", LOOK)
        assert ran == looked(client, taken.id)
    finally:
        call("rmi", "--all", "--force")


def test_an_archive_becomes_the_same_snapshot_again(
    client: Client, server: RunningServer, archive: Path, taken: SnapshotView
) -> None:
    expected = looked(client, taken.id)
    made = client.snapshots.import_path(str(archive))
    assert (made.name, made.commit_message, made.metadata) == ("ready", "as it was", {"a": "b"})
    assert (made.source_devbox_id, made.source_blueprint_id) == (
        taken.source_devbox_id,
        taken.source_blueprint_id,
    )
    assert looked(client, made.id) == expected
    named = client.snapshots.import_archive(archive, "another name")
    assert named.name == "another name"

    async def import_and_delete() -> None:
        async with AsyncClient(Server(server.url, server.key)) as asynchronous:
            third = await asynchronous.snapshots.import_archive(archive)
            await asynchronous.snapshots.export(third.id, archive.with_name("async.oci"))
            await asynchronous.snapshots.delete(third.id)

    asyncio.run(import_and_delete())
    assert archive.with_name("async.oci").stat().st_size >= archive.stat().st_size
    assert [view.id for view in client.objects.list("snapshot")] == []
    for id in (made.id, named.id):
        client.snapshots.delete(id)


def test_an_imported_snapshot_can_be_branched(client: Client, archive: Path) -> None:
    made = client.snapshots.import_path(str(archive))
    with client.devboxes.open(DevboxRequest(snapshot_id=made.id)) as box:
        box.run("echo more > ~/more")
        branch = client.snapshots.create(box.id)
    assert branch.source_snapshot_id == made.id
    assert (branch.size_bytes or 0) < (made.size_bytes or 0)
    client.snapshots.delete(made.id)
    with client.devboxes.open(DevboxRequest(snapshot_id=branch.id)) as box:
        assert box.run("cat ~/file ~/more").stdout == "hello\nmore\n"
    client.snapshots.delete(branch.id)


def test_an_image_is_exported_by_the_same_code(client: Client, image: str, tmp_path: Path) -> None:
    client.images.export(image, tmp_path / "small.oci")
    made = client.images.import_path(str(tmp_path / "small.oci"), "small-again")
    with client.devboxes.open(DevboxRequest(blueprint_id=made.id)) as box:
        assert box.run("ls /srv").stdout == "gone\nkept\n"
    client.images.delete(made.id)
    with pytest.raises(NotFound):
        client.images.export("unknown", tmp_path / "unknown.oci")
    assert not (tmp_path / "unknown.oci").exists()


def test_invalid_archive_is_refused_and_changes_nothing(client: Client, tmp_path: Path) -> None:
    before = [view.id for view in client.snapshots.list()]
    (tmp_path / "nonsense").write_bytes(b"nonsense" * 100)
    with pytest.raises(ImageError, match="not a readable tar"):
        client.snapshots.import_path(str(tmp_path / "nonsense"))
    with pytest.raises(UsageError, match="--import-from"):
        client.snapshots.import_path("/no/such/file")
    with pytest.raises(ImageError):
        client.snapshots.import_archive(tmp_path / "nonsense")
    assert [view.id for view in client.snapshots.list()] == before
    assert list(client.objects.list("snapshot")) == []


def test_notes_that_cannot_be_kept_are_refused(client: Client, archive: Path, tmp_path: Path) -> None:
    copy = tmp_path / "oci"
    subprocess.run(["mkdir", copy], check=True)
    subprocess.run(["tar", "xf", archive, "-C", copy], check=True)
    index = json.loads((copy / "index.json").read_text())
    blobs = copy / "blobs/sha256"
    manifest = json.loads((blobs / index["manifests"][0]["digest"].removeprefix("sha256:")).read_text())
    manifest["annotations"]["dev.benchyard.metadata"] = '{"a": ["not text"]}'
    (blobs / "new").write_text(json.dumps(manifest))
    told = subprocess.run(["sha256sum", blobs / "new"], check=True, capture_output=True, text=True).stdout
    (blobs / "new").rename(blobs / told.split()[0])
    index["manifests"][0]["digest"] = f"sha256:{told.split()[0]}"
    (copy / "index.json").write_text(json.dumps(index))
    with pytest.raises(ImageError, match="cannot be kept"):
        client.snapshots.import_path(str(copy))
    assert [view.name for view in client.snapshots.list()].count("ready") == 1


def test_the_same_import_asked_for_again_is_done_once(server: RunningServer, archive: Path) -> None:
    headers = {"authorization": f"Bearer {server.key}", "x-request-id": "import-once"}
    body = {"path": str(archive)}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as plain:
        answers = [plain.post("/v1/devboxes/disk_snapshots/import", json=body) for _ in range(2)]
        assert answers[0].json() == answers[1].json()
        other = plain.post("/v1/devboxes/disk_snapshots/import", json={**body, "name": "other"})
        assert other.status_code == 400
        plain.post(
            f"/v1/devboxes/disk_snapshots/{answers[0].json()['id']}/delete", headers={"x-request-id": "d"}
        )


def test_deleted_or_unknown_snapshot_cannot_be_exported(
    client: Client, archive: Path, tmp_path: Path
) -> None:
    made = client.snapshots.import_path(str(archive))
    client.snapshots.delete(made.id)
    with pytest.raises(Conflict, match="deleted"):
        client.snapshots.export(made.id, tmp_path / "deleted.oci")
    with pytest.raises(NotFound):
        client.snapshots.export("snp_unknown", tmp_path / "unknown.oci")


def test_a_client_that_goes_away_leaves_nothing_and_blocks_nobody(
    client: Client, server: RunningServer, taken: SnapshotView, tmp_path: Path
) -> None:
    url = f"{server.url}/v1/devboxes/disk_snapshots/{taken.id}/export"
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.stream("GET", url, headers=headers, timeout=60) as answer:
        assert answer.headers["content-type"] == "application/x-tar"
        next(answer.iter_raw(1000))
    partial = server.data / "images" / "partial"
    eventually(lambda: not list(partial.iterdir()), "the packed layers to go")
    assert client.snapshots.export(taken.id, tmp_path / "again.oci") > 0


def layers(server: RunningServer) -> set[str]:
    """What the store has of layers, whole or half-made."""
    return {path.name for name in ("layers", "partial") for path in (server.data / "images" / name).iterdir()}


@pytest.mark.slow
def test_a_snapshot_of_the_host_view_runs_where_there_is_no_such_host(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    before = layers(server)
    with client.devboxes.open() as box:
        box.run("echo kept > ~/file")
        made = client.snapshots.create(box.id)
    client.snapshots.export(made.id, tmp_path / "host.oci")
    back = client.snapshots.import_path(str(tmp_path / "host.oci"), "host-again")
    (tmp_path / "host.oci").unlink()
    with client.devboxes.open(DevboxRequest(snapshot_id=back.id)) as box:
        assert box.run("cat ~/file; python3 -c 'print(1 + 1)'").stdout == "kept\n2\n"
    for id in (made.id, back.id):
        client.snapshots.delete(id)
    # They go in the background, and a whole system takes a while: a server that stops would wait for it.
    deadline = time.monotonic() + 300
    while layers(server) != before:
        assert time.monotonic() < deadline, "the layers of a whole system do not go"
        time.sleep(0.2)
