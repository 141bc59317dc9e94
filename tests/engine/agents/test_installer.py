"""Installs of agents: what packages do to the devbox they are installed in, and what comes out of it."""

import asyncio
import io
import stat
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from benchyard.engine.agents import installer, runtimes
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.boot import shown_folders
from benchyard.engine.engine import Engine
from benchyard.errors import InstallFailed
from benchyard.hosts.kits import SPARED_SECONDS, KitFolders
from benchyard.models.agents import AgentChoice, AgentRequest
from benchyard.models.devboxes import DevboxPurpose, DevboxRequest
from benchyard.models.objects import ContentType, ObjectRequest
from tests.engine.yard import opened, run

SCRIPT = b"#!/bin/sh\necho hello\n"


async def stored(tools: EngineContext, content: bytes, kind: ContentType = "tgz", name: str = "a.tgz") -> str:
    """The id of an object with this content."""

    async def pieces() -> AsyncIterator[bytes]:
        yield content

    id = f"obj_{abs(hash((content, kind, name)))}"
    await tools.objects.create(id, ObjectRequest(name=name, content_type=kind), None)
    await tools.objects.upload(id, pieces())
    await tools.objects.complete(id)
    return id


def packed(**files: bytes) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
    return archive.getvalue()


async def registered(engine: Engine, tools: EngineContext, *setup: str, **more: Any) -> AgentChoice:
    """An agent from an archive with one script, set up by these commands."""
    given = {"content": packed(hello=SCRIPT), "id": "agt_1", **more}
    object_id = await stored(tools, given["content"], *given.get("kind", ()))
    part = {"object_id": object_id, "agent_setup": list(setup)}
    request = {"name": "mine", "source": {"type": "object", "object": part}, "run_command": "hello"}
    await engine.agents.known.create(Caller(given["id"]), AgentRequest.model_validate(request))
    return await engine.agents.resolve("mine", None, None, {})


async def folder_of(engine: Engine, choice: AgentChoice) -> Path:
    _, shown = await engine.agents.ready(choice)
    assert shown[0].target == f"/opt/benchyard/agents/{choice.agent_id}"
    return shown[0].source


def left_in(data: Path) -> list[str]:
    """What lies in the cache that is no lock."""
    kits = data / "kits"
    return [path.name for path in kits.iterdir() if path.suffix != ".lock"] if kits.exists() else []


def test_nothing_comes_out_that_could_do_harm(tmp_path: Path) -> None:
    async def test(engine: Engine, tools: EngineContext) -> None:
        choice = await registered(
            engine,
            tools,
            "sudo chown root hello; sudo chmod 6755 hello; mkdir -m 700 hidden; echo x > hidden/file",
            "sudo mknod device b 7 0; mkfifo pipe; ln -s /etc/passwd outside; sudo ln hello again",
            "touch .wh.gone",
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'",
            "mkdir bin; sudo touch /etc/elsewhere; (setsid sh -c 'sleep 2; touch late' &)",
        )
        folder = await folder_of(engine, choice)
        found = {path.name: path.lstat() for path in folder.iterdir()}
        assert set(found) == {"hello", "again", "hidden", "outside", "bin", ".wh.gone"}
        assert {stat.S_IMODE(found[name].st_mode) for name in ("hello", "again", "hidden", "bin")} == {0o755}
        assert found["hello"].st_ino == found["again"].st_ino
        assert stat.S_IMODE((folder / "hidden/file").stat().st_mode) == 0o644
        assert (folder / "outside").is_symlink()
        assert len({each.st_uid for each in found.values()}) == 1
        assert tools.host.running() == set()
        assert tools.host.with_disk() == set()

    run(tmp_path, test, "native")


def test_single_file_is_installed_as_a_program(tmp_path: Path) -> None:
    async def test(engine: Engine, tools: EngineContext) -> None:
        choice = await registered(engine, tools, content=SCRIPT, kind=("binary", "some/where/hello"))
        folder = await folder_of(engine, choice)
        assert [path.name for path in folder.iterdir()] == ["hello"]
        assert stat.S_IMODE((folder / "hello").stat().st_mode) == 0o755
        assert (folder / "hello").read_bytes() == SCRIPT

    run(tmp_path, test, "native")


def test_it_is_installed_once_for_all_who_ask(tmp_path: Path) -> None:
    async def test(engine: Engine, tools: EngineContext) -> None:
        choice = await registered(engine, tools, "head -c 8 /dev/urandom | base64 > once")
        impatient = asyncio.create_task(engine.agents.ready(choice))
        asked = [asyncio.create_task(folder_of(engine, choice)) for _ in range(5)]
        await asyncio.sleep(0)
        impatient.cancel()
        folders = {*await asyncio.gather(*asked)}
        assert len(folders) == 1
        before = (folders.pop() / "once").read_text()
        assert (await folder_of(engine, choice) / "once").read_text() == before

    async def after(engine: Engine, tools: EngineContext) -> None:
        before = left_in(tmp_path)
        await folder_of(engine, await engine.agents.resolve("mine", None, None, {}))
        assert left_in(tmp_path) == before

    run(tmp_path, test, "native")
    run(tmp_path, after, "native")


def test_a_failure_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    async def test(engine: Engine, tools: EngineContext) -> None:
        choice = await registered(engine, tools, "for i in $(seq 100); do echo line $i; done; exit 3")
        told = []
        for outcome in await asyncio.gather(
            *(engine.agents.ready(choice) for _ in range(3)), return_exceptions=True
        ):
            assert isinstance(outcome, InstallFailed)
            told.append(outcome.message)
        assert "agent mine could not be installed" in told[0]
        assert "ended with 3" in told[0]
        assert "line 100" in told[0]
        assert "line 1\n" not in told[0], "its end only"
        assert left_in(tmp_path) == []
        assert tools.host.with_disk() == set()

    run(tmp_path, test, "native")


def test_install_over_its_time_is_ended(tmp_path: Path) -> None:
    async def test(engine: Engine, tools: EngineContext) -> None:
        choice = await registered(engine, tools, "sleep 1000")
        with pytest.raises(InstallFailed, match="longer than 2 s"):
            await engine.agents.ready(choice)
        assert tools.host.running() == set()
        assert left_in(tmp_path) == []

    run(tmp_path, test, "native", build_seconds=2.0)


def test_too_large_install_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installer, "MOST_BYTES", 1024**2)
    monkeypatch.setattr(installer, "MOST_ENTRIES", 100)

    async def test(engine: Engine, tools: EngineContext) -> None:
        large = await registered(engine, tools, "head -c 2000000 /dev/zero > large")
        with pytest.raises(InstallFailed, match="more than 1048576 bytes"):
            await engine.agents.ready(large)
        many = await registered(engine, tools, "touch $(seq 200)", content=packed(many=b"1"), id="agt_2")
        with pytest.raises(InstallFailed, match="more than 100 entries"):
            await engine.agents.ready(many)
        assert left_in(tmp_path) == []

    run(tmp_path, test, "native")


def test_a_mistake_of_ours_is_a_failure_and_not_a_cancellation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No names: going through them is a mistake that nobody foresaw.
    monkeypatch.setattr(installer, "_FOLDER_BINS", None)

    async def test(engine: Engine, tools: EngineContext) -> None:
        choice = await registered(engine, tools, "true")
        with pytest.raises(InstallFailed, match="made a mistake"):
            await engine.agents.ready(choice)

    run(tmp_path, test, "native")


def test_a_server_that_is_stopped_meanwhile_leaves_nothing(tmp_path: Path) -> None:
    async def live() -> None:
        async with opened(tmp_path, "native") as (engine, tools):
            choice = await registered(engine, tools, "sleep 1000")
            waiting = asyncio.create_task(engine.agents.ready(choice))
            async with asyncio.timeout(30):
                while not tools.host.running():  # noqa: ASYNC110  nobody tells
                    await asyncio.sleep(0.02)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert left_in(tmp_path) == []
        # As if it had been killed.
        (tmp_path / "kits" / f"{'a' * 32}.partial").mkdir()
        async with opened(tmp_path, "native") as (engine, tools):
            assert left_in(tmp_path) == []
            assert tools.host.with_disk() == set()

    asyncio.run(live())


def test_installed_agent_in_use_is_not_trimmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchyard.hosts.kits.SPARED_SECONDS", -SPARED_SECONDS)

    async def test(engine: Engine, tools: EngineContext) -> None:
        choice = await registered(engine, tools)
        folder = await folder_of(engine, choice)
        purpose = DevboxPurpose(shown={"/srv/agent": str(folder)})
        made = await engine.devboxes.create(Caller("dbx_1", purpose=purpose), DevboxRequest())
        assert (await engine.devboxes.wait_until_booted(made.id)).status == "running"
        kits = KitFolders(tmp_path / "kits")
        assert folder in shown_folders(tools)
        await kits.trim(0, shown_folders(tools))
        assert (folder / "hello").exists()
        await engine.devboxes.shutdown(made.id, force=True)
        await tools.work.settle("devbox/")
        assert folder not in shown_folders(tools)
        await kits.trim(0, shown_folders(tools))
        assert not folder.exists()

    run(tmp_path, test, "native")


def test_registries_of_this_machine_are_reported_without_what_opens_them(tmp_path: Path) -> None:
    (tmp_path / ".config/pip").mkdir(parents=True)
    (tmp_path / ".config/pip/pip.conf").write_text(
        "[global]\nindex-url = https://index.test/simple\nextra-index-url = file:///x https://more.test/s\n"
    )
    (tmp_path / ".npmrc").write_text("registry=https://npm.test/\n//npm.test/:_authToken=SECRET\n")
    machine = {"HOME": str(tmp_path), "PATH": "/usr/local/bin:/usr/bin:/bin", "OTHER": "SECRET"}
    told = asyncio.run(runtimes.registry_variables({**machine, "https_proxy": "http://proxy.test:1"}))
    assert told["UV_DEFAULT_INDEX"] == told["PIP_INDEX_URL"] == "https://index.test/simple"
    assert told["UV_INDEX"] == "https://more.test/s"
    assert told["https_proxy"] == "http://proxy.test:1"
    assert told["npm_config_registry"] == "https://npm.test/"
    assert "SECRET" not in str(told)
    given = {
        "UV_DEFAULT_INDEX": "https://own.test/s",
        "SSL_CERT_FILE": "/etc/ssl/x",
        "SSL_CERT_DIR": "/srv/x",
    }
    told = asyncio.run(runtimes.registry_variables({**machine, **given}))
    assert told["UV_DEFAULT_INDEX"] == "https://own.test/s"
    assert told["SSL_CERT_FILE"] == "/etc/ssl/x"
    assert "SSL_CERT_DIR" not in told
