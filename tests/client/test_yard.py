"""`Benchyard` and `AsyncBenchyard`: how they find a server, and devboxes as objects."""

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import assert_type

import pytest

import benchyard
from benchyard import AsyncBenchyard, Benchyard
from benchyard.client import Devbox
from benchyard.client.listings import AsyncPage, Listing, Page
from benchyard.client.sdk.benchyard import server_of
from benchyard.client.sessions import AsyncSession, SyncSession
from benchyard.errors import NotFound, ServerUnreachable, StartFailed, StillWaiting, UsageError
from benchyard.models.benchmarks import BenchmarkView
from benchyard.testing.server import RunningServer
from tests.client.scenes import PATIENCE_SECONDS

OURS = {"BENCHYARD_URL": "http://a.test", "BENCHYARD_API_KEY": "ours"}
THEIRS = {"RUNLOOP_BASE_URL": "http://b.test", "RUNLOOP_API_KEY": "theirs"}


@pytest.mark.parametrize(
    ("url", "key", "environ", "found"),
    [
        (None, None, OURS, ("http://a.test", "ours")),
        (None, None, THEIRS, ("http://b.test", "theirs")),
        (None, "given", OURS, ("http://a.test", "given")),
        (None, "given", THEIRS, ("http://b.test", "given")),
        ("http://c.test/", "given", OURS, ("http://c.test", "given")),
        ("http://c.test", None, OURS, ("http://c.test", "ours")),
    ],
)
def test_a_server_is_given_or_found(
    url: str | None, key: str | None, environ: Mapping[str, str], found: tuple[str, str], tmp_path: Path
) -> None:
    server = server_of(url, key, {**environ, "HOME": str(tmp_path)})
    assert (server.url, server.key) == found


def test_a_key_of_another_product_is_not_sent_to_this_server(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give bearer_token"):
        server_of("http://c.test", None, {**THEIRS, "HOME": str(tmp_path)})


def test_no_server_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ServerUnreachable, match="benchyard serve"):
        server_of(None, None, {"HOME": str(tmp_path)})
    with pytest.raises(UsageError, match="http"):
        server_of("ftp://c.test", "key", {"HOME": str(tmp_path)})
    with pytest.raises(UsageError, match="base_url is empty"):
        server_of("", "key", {"HOME": str(tmp_path)})


def test_the_package_has_the_sdk_and_loads_it_late() -> None:
    script = (
        "import sys, benchyard; before = 'pydantic' in sys.modules or 'httpx' in sys.modules;"
        "from benchyard import AsyncBenchyard, Benchyard; print(before, 'httpx' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert told == "False True\n"
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = benchyard.Nothing  # type: ignore[attr-defined]


def test_verbs_have_the_types_of_their_client(server: RunningServer) -> None:
    async def awaited() -> None:
        async with AsyncBenchyard(server.url, server.key) as yard:
            assert_type(yard.api.benchmarks.list(), Listing[BenchmarkView])
            assert_type(await yard.api.benchmarks.list(), AsyncPage[BenchmarkView])
            assert_type(yard.devbox.from_id("dbx_none"), Devbox[AsyncSession])

    with Benchyard(server.url, server.key) as yard:
        assert_type(yard.api.benchmarks.list(), Page[BenchmarkView])
        assert_type(yard.devbox.list(), list[Devbox[SyncSession]])
        assert repr(yard) == f"<Benchyard of {server.url}>"
        asyncio.run(awaited())


def test_a_devbox_found_by_its_id_runs(server: RunningServer) -> None:
    """On the blocking client it is waited for, on the other one it is not."""

    async def awaited(id: str) -> None:
        async with AsyncBenchyard(server.url, server.key) as yard:
            found = yard.devbox.from_id(id)
            assert (await found.await_running(timeout=PATIENCE_SECONDS)).status == "running"
            async with found as same:
                assert (await same.cmd.exec("true")).success
            assert (await same.get_info()).status == "shutdown"
            none = yard.devbox.from_id("dbx_none")
            with pytest.raises(NotFound):
                await none.await_running()

    with Benchyard(server.url, server.key) as yard:
        id = yard.api.devboxes.create().id
        assert yard.devbox.from_id(id).get_info().status == "running"
        asyncio.run(awaited(id))
        with pytest.raises(StartFailed, match="api_shutdown"):
            yard.devbox.from_id(id)
        with pytest.raises(NotFound):
            yard.devbox.from_id("dbx_none")


def test_a_devbox_runs_commands(yard: Benchyard) -> None:
    with yard.devbox.create(name="commands", environment_variables={"A": "b"}) as box:
        result = box.cmd.exec("echo $A; echo oh >&2; exit 3")
        assert (result.exit_code, result.stdout(), result.stderr()) == (3, "b\n", "oh\n")
        assert (result.success, result.failed, result.devbox_id) == (False, True, box.id)
        long = box.cmd.exec("seq 5000")
        assert long.stdout().splitlines() == [str(number) for number in range(1, 5001)]
        assert long.stdout(num_lines=2) == "4999\n5000"
        shell = box.shell("work")
        assert shell.exec("cd /usr; X=1").success
        assert shell.exec("echo $PWD $X").stdout() == "/usr 1\n"
        with pytest.raises(StillWaiting):
            box.cmd.exec("sleep 600", timeout=0.5)
        with pytest.raises(UsageError):
            yard.devbox.create(name=7)  # type: ignore[arg-type]
    assert box.get_info().status == "shutdown"


def test_output_is_reported_while_a_command_runs(yard: Benchyard) -> None:
    out: list[str] = []
    err: list[str] = []
    both: list[str] = []
    command = "echo first; until test -e ~/go; do sleep 0.05; done; echo ünï; echo oh >&2; printf '\\xff'"
    with yard.devbox.create() as box:

        def heard(text: str) -> None:
            out.append(text)
            if len(out) == 1:
                release(yard, box.id)

        result = box.cmd.exec(command, stdout=heard, stderr=err.append, output=both.append)
    assert result.exit_code == 0
    assert out[0] == "first\n"
    assert ("".join(out), "".join(err)) == ("first\nünï\n\ufffd", "oh\n")
    assert sorted("".join(both)) == sorted("".join(out) + "".join(err))


def release(yard: Benchyard, id: str) -> None:
    """From another connection, since the loop of this one is busy telling."""
    server = yard.api.server
    with Benchyard(server.url, server.key) as other:
        other.devbox.from_id(id).write("go", "")


def test_a_command_is_started_and_looked_after(yard: Benchyard) -> None:
    with yard.devbox.create() as box:
        execution = box.cmd.exec_async("sleep 0.2; echo done")
        assert execution.get_state().execution_id == execution.execution_id
        assert execution.result(timeout=PATIENCE_SECONDS).stdout() == "done\n"
        endless = box.cmd.exec_async("sleep 600")
        endless.kill()
        assert endless.result(timeout=PATIENCE_SECONDS).exit_code == 137


def test_a_devbox_keeps_files_and_its_disk(yard: Benchyard, tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000
    (tmp_path / "local").write_bytes(content)
    with yard.devbox.create() as box:
        box.file.write(file_path="notes/a.txt", contents="grüße")
        assert box.file.read(file_path="notes/a.txt") == "grüße"
        box.file.upload(path="up", file=tmp_path / "local")
        box.file.upload("small", b"bytes")
        assert box.file.download(path="up") == content
        assert box.file.download("small") == b"bytes"
        box.keep_alive()
        snapshot = box.snapshot_disk(name="kept", metadata={"a": "b"})
        kept = snapshot.get_info().snapshot
        assert kept is not None
        assert (kept.name, kept.metadata) == ("kept", {"a": "b"})
        assert box.id in [each.id for each in yard.devbox.list(status="running")]
    with yard.devbox.create_from_snapshot(snapshot.id, name="again", timeout=PATIENCE_SECONDS) as again:
        assert again.read("notes/a.txt") == "grüße"
    with pytest.raises(NotFound, match="bpt_none"):
        yard.devbox.create_from_blueprint_id("bpt_none")
    with pytest.raises(NotFound, match="nobody"):
        yard.devbox.create_from_blueprint_name("nobody")
