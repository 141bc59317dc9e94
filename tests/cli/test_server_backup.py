"""A backup that was restored: another folder, another server, and everything that was there."""

import gzip
import io
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchyard.hosts import leaks
from benchyard.store.backups import write_backup
from benchyard.testing.server import RunningServer
from tests.api.devbox import create, eventually, good
from tests.api.jobs import Job, agent, scenarios_spec
from tests.api.scenarios import bash, function, scenario
from tests.cli.conftest import CommandLine
from tests.postgres import new_database

SECRET = "told-to-devboxes-only"
SAID = "said by the agent"


@dataclass(frozen=True)
class Kept:
    """What a server had when it was backed up."""

    object_id: str
    blueprint_id: str
    job: dict[str, Any]


@contextmanager
def serving(data: Path, *options: str) -> Iterator[tuple[RunningServer, httpx.Client]]:
    with RunningServer(data, options) as server:
        headers = {"authorization": f"Bearer {server.key}"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=120) as api:
            yield server, api
    assert leaks.find(data) == []


def await_built(api: httpx.Client, blueprint_id: str) -> None:
    def status() -> str:
        view = good(api.get(f"/v1/blueprints/{blueprint_id}"))
        assert view["status"] != "failed", view
        return str(view["status"])

    eventually(lambda: status() == "build_complete", "the blueprint")


def fill(api: httpx.Client) -> Kept:
    """Put one of everything on a server."""
    stored = good(api.post("/v1/objects", json={"name": "mine.txt", "content_type": "text"}))
    good(api.put(stored["upload_url"], content=b"my own"))
    good(api.post(f"/v1/objects/{stored['id']}/complete"))
    good(api.post("/v1/secrets", json={"name": "MINE", "value": SECRET}))
    built = {"name": "built", "system_setup_commands": ["echo built > ~/here"]}
    blueprint = good(api.post("/v1/blueprints", json=built))["id"]
    await_built(api, blueprint)
    made = scenario(api, function(bash("cat answer")))
    job = Job(api, scenarios_spec([made["id"]], agent(f"echo {SAID}; echo 0.25 > answer")), name="kept")
    view = job.completed()
    return Kept(stored["id"], blueprint, view)


def check(api: httpx.Client, kept: Kept) -> None:
    """Everything is there, and can be used."""
    link = good(api.get(f"/v1/objects/{kept.object_id}/download"))["download_url"]
    assert httpx.get(link).content == b"my own"
    assert good(api.get(f"/v1/benchmark_jobs/{kept.job['id']}")) == kept.job
    await_built(api, kept.blueprint_id)
    devbox = create(api, blueprint_id=kept.blueprint_id, secrets={"TOLD": "MINE"})
    assert devbox.run("cat ~/here; echo $TOLD")["stdout"] == f"built\n{SECRET}\n"


def test_it_has_everything(benchyard: CommandLine, tmp_path: Path) -> None:
    file, folder = tmp_path / "backup.tgz", tmp_path / "restored"
    with serving(tmp_path / "data") as (server, api):
        kept = fill(api)
        before = benchyard_logs(benchyard, server, kept, tmp_path / "before")
        benchyard.ok("server", "backup", str(file), "--data", str(server.data))
        later = good(api.post("/v1/objects", json={"name": "later.txt", "content_type": "text"}))["id"]
    assert file.stat().st_mode & 0o777 == 0o600
    told = benchyard.ok("server", "restore", str(file), "--data", str(folder))
    assert f"benchyard serve --data {folder}" in told
    with serving(folder) as (server, api):
        check(api, kept)
        assert api.get(f"/v1/objects/{later}").status_code == 404
        after = benchyard_logs(benchyard, server, kept, tmp_path / "after")
    assert any(SAID in text for text in before.values()), before
    assert after == before


def benchyard_logs(benchyard: CommandLine, server: RunningServer, kept: Kept, target: Path) -> dict[str, str]:
    """What `job logs` fetches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCHYARD_URL", server.url)
        patch.setenv("BENCHYARD_API_KEY", server.key)
        benchyard.ok("job", "logs", kept.job["id"], "-o", str(target))
    return {each.name: each.read_text() for each in target.rglob("*.log")}


def test_with_postgres_the_database_is_dumped_beside_it(
    benchyard: CommandLine, postgres_database: str, postgres_url: str, tmp_path: Path
) -> None:
    file, dump, folder = tmp_path / "backup.tgz", tmp_path / "dump", tmp_path / "restored"
    with serving(tmp_path / "data", "--database-url", postgres_database) as (server, api):
        kept = fill(api)
        where = "--data", str(server.data)
        refused = benchyard("server", "backup", str(file), *where)
        assert (refused.status, file.exists()) == (2, False)
        assert "pg_dump" in refused.err
        assert "--without-database" in refused.err
        subprocess.run(["pg_dump", "-Fc", "-f", dump, postgres_database], check=True)
        benchyard.ok("server", "backup", str(file), *where, "--without-database")
    another = new_database(postgres_url)
    subprocess.run(["pg_restore", "--no-owner", "-d", another, dump], check=True)
    restored = benchyard("server", "restore", str(file), "--data", str(folder))
    assert restored.status == 0, restored.err
    assert "restore it before the server starts" in restored.err
    with serving(folder, "--database-url", another) as (_, api):
        check(api, kept)


@pytest.fixture(scope="module")
def backup(fake_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of the server with the fake driver."""
    file = tmp_path_factory.mktemp("backup") / "backup.tgz"
    with file.open("wb") as target:
        write_backup(fake_server.data, target, "0", lambda _size: None, database=True)
    return file


def test_standard_output_and_input_are_files_too(
    benchyard: CommandLine, backup: Path, tmp_path: Path
) -> None:
    benchyard.ok("server", "restore", "-", "--data", str(tmp_path / "new"), typed=backup.read_bytes())
    assert (tmp_path / "new/secret-key").stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_there_is_not_written_over(
    benchyard: CommandLine, fake_server: RunningServer, tmp_path: Path
) -> None:
    file = tmp_path / "backup.tgz"
    file.write_text("mine")
    assert benchyard("server", "backup", str(file), "--data", str(fake_server.data)).status == 2
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("backup.tgz", "mine")]


def test_a_folder_with_something_in_it_stays_as_it_is(
    benchyard: CommandLine, backup: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "benchyard.db").write_text("mine")
    ended = benchyard("server", "restore", str(backup), "--data", str(folder))
    assert ended.status == 5, ended
    assert "--data" in ended.err
    assert [each.name for each in folder.iterdir()] == ["benchyard.db"]


def test_files_of_a_server_that_never_began_do_not_block_a_restore(
    benchyard: CommandLine, backup: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("lock", "server.log", "server.json"):
        (folder / name).touch()
    benchyard.ok("server", "restore", str(backup), "--data", str(folder))
    assert (folder / "benchyard.db").is_file()
    assert not (folder / "server.json").exists()


def test_a_volume_is_filled(benchyard: CommandLine, backup: Path, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "none", volume], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        benchyard.ok("server", "restore", str(backup), "--data", str(volume))
        found = {each.name for each in volume.iterdir()}
    finally:
        subprocess.run(["umount", volume], check=True)
    assert {"benchyard.db", "secret-key", "api-key"} <= found
    assert not [name for name in found if name.startswith(".")]


def test_truncated_or_damaged_backup_makes_no_folder(
    benchyard: CommandLine, backup: Path, tmp_path: Path
) -> None:
    content = backup.read_bytes()
    middle = len(content) // 2
    # More than one bit: a single one may be one that the compression does not use.
    spoilt = bytes(byte ^ 0xFF for byte in content[middle : middle + 64])
    damaged = content[:middle] + spoilt + content[middle + 64 :]
    for each in (b"", content[:100], content[:middle], content[:-4], damaged, b"no archive at all"):
        ended = benchyard("server", "restore", "-", "--data", str(tmp_path / "new"), typed=each)
        assert ended.status == 2, (len(each), ended)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["../outside", "/etc/passwd", "host/devboxes/dbx_1/root/file", "images/x", "server.json"]
)
def test_foreign_file_in_a_backup_is_refused(benchyard: CommandLine, tmp_path: Path, name: str) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    content = gzip.compress(packed.getvalue())
    ended = benchyard("server", "restore", "-", "--data", str(tmp_path / "new"), typed=content)
    assert ended.status == 2, ended
    assert list(tmp_path.iterdir()) == []
