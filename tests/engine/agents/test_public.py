"""Public agents: chosen in a version, installed from their packages, and listed with what they need."""

import asyncio
import json
import mmap
import struct
from pathlib import Path
from typing import Any

import pytest

from benchyard.agents import catalog
from benchyard.agents.packages import Package
from benchyard.agents.public_agent import PublicAgent
from benchyard.devboxes import elf
from benchyard.engine.agents import installer, public
from benchyard.engine.context import EngineContext
from benchyard.engine.engine import Engine
from benchyard.errors import InstallFailed, NotSupported, UsageError
from benchyard.models.agents import AgentChoice
from tests.engine.yard import run

PUBLIC = [name for name in catalog.names() if catalog.keys_of(name)]
SEMVER = Package(
    "npm",
    "semver",
    "7.6.3",
    more=("is-number@7.0.0",),
    setup=("mkdir own && cp bin/node own/program",),
    programs=("own/program",),
)


def program(loader: bytes, behind: bytes = b"") -> bytes:
    """A file that says of itself that it is a program with this loader, with something behind it."""
    head = elf.MAGIC.ljust(64, b"\0")
    head = head[:32] + struct.pack("<Q", 64) + head[40:54] + struct.pack("<HH", 56, 1) + head[58:]
    part = struct.pack("<IIQQQQQQ", 3, 4, 120, 0, 0, len(loader), len(loader), 1)
    return head + part + loader + behind


def test_a_program_names_another_loader_and_keeps_its_place(tmp_path: Path) -> None:
    file = tmp_path / "program"
    file.write_bytes(program(b"/lib64/ld-linux-x86-64.so.2\0", b"what it looks for at its end"))
    size = file.stat().st_size
    installer.use_loader(file, "/dev/k12345678/loader")
    assert elf.loader(file.read_bytes()) == "/dev/k12345678/loader"
    assert file.read_bytes().endswith(b"what it looks for at its end")
    assert file.stat().st_size == size
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        assert elf.loader_place(content) == (120, 28)


def test_file_that_is_not_the_program_is_refused(tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_bytes(program(b"/lib/ld\0"))
    text = tmp_path / "text"
    text.write_text("#!/bin/sh\n" * 100)
    link = tmp_path / "link"
    link.symlink_to(short)
    for path, says in (
        (short, "no room"),
        (text, "is not a program for this machine"),
        (link, "no program 'link'"),
        (tmp_path / "none", "no program 'none'"),
    ):
        with pytest.raises(InstallFailed, match=says):
            installer.use_loader(path, "/dev/k12345678/loader")
    static = tmp_path / "static"
    static.write_bytes(elf.MAGIC.ljust(64, b"\0"))
    installer.use_loader(static, "/dev/k12345678/loader")
    assert static.read_bytes() == elf.MAGIC.ljust(64, b"\0")


@pytest.mark.parametrize("name", PUBLIC)
def test_a_version_is_settled_when_a_job_is_made(name: str) -> None:
    default = catalog.make(name, {}).default_version
    assert default is not None
    assert public.choose(name, None, {}) == AgentChoice(name=name, version=default)
    assert public.choose(name, "1.2.3", {}).version == "1.2.3"
    with pytest.raises(UsageError, match="not a valid version"):
        public.choose(name, "user/repo", {})
    with pytest.raises(UsageError, match="no_such"):
        public.choose(name, None, {"no_such": "x"})


def test_agents_without_versions_list_none() -> None:
    assert public.choose("nop", None, {}) == AgentChoice(name="nop")
    assert public.record(AgentChoice(name="nop")) is None
    with pytest.raises(UsageError, match="no versions to choose from"):
        public.choose("oracle", "1.0.0", {})


def test_every_version_has_an_id_of_its_own_that_hosts_take() -> None:
    versions = ("1.2.3", "1.2-3", "1.2.3+x", "1.2.3.x", "1.2.3-x", "12.3")
    found = [public.record(AgentChoice(name="codex", version=version)) for version in versions]
    ids = {record.id for record in found if record}
    assert len(ids) == len(versions)
    assert all(set(id) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-") for id in ids)
    first = found[0]
    assert first is not None
    package = public.package_of(first)
    assert package is not None
    assert package.version.startswith("1.2.3-linux-")
    assert public.package_of(first.model_copy(update={"is_public": False})) is None


def test_scripts_of_packages_are_not_run() -> None:
    steps = installer.package_steps(SEMVER)
    assert [step.title for step in steps] == ["npm install semver@7.6.3", f"$ {SEMVER.setup[0]}"]
    assert steps[0].env["npm_config_ignore_scripts"] == "true"
    assert steps[0].env["BY_MORE"] == "is-number@7.0.0"
    (pip,) = installer.package_steps(Package("pip", "a", "1.0", more=("b", "c")))
    assert (pip.title, pip.env["BY_SPEC"], pip.env["BY_MORE"]) == ("pip install a==1.0", "a==1.0", "b c")


def test_agents_are_asked_for_a_model_and_a_machine_when_a_job_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(engine: Engine, tools: EngineContext) -> None:
        agents = engine.agents
        choice = await agents.resolve("opencode", None, "latest", {"max_turns": "3"})
        assert (choice.version, choice.agent_id) == ("1.18.33", None)
        agent = await agents.check(choice, "mine/x")
        assert agent is not None
        found = agent.choose("mine/x", ["mine"])
        assert found is not None
        assert (found.provider, found.model) == ("mine", "x")
        for model in (None, "llama", "nobody/x"):
            with pytest.raises(UsageError, match="opencode:"):
                agent.choose(model)
        nop = await agents.check(await agents.resolve("nop", None, None, {}), None)
        assert nop is not None
        assert nop.choose(None) is None
        goose = await agents.resolve("goose", "agt_public_goose", "1.50.0", {})
        assert goose == AgentChoice(name="goose", version="1.50.0")
        monkeypatch.setattr("platform.machine", lambda: "aarch64")
        with pytest.raises(NotSupported, match="x86-64 only"):
            await agents.check(goose, "gpt-5.5")

    run(tmp_path, test)


def test_they_are_listed_with_keys_and_versions(tmp_path: Path) -> None:
    async def test(engine: Engine, tools: EngineContext) -> None:
        for folder, note in (
            ("a", ["codex", "1.0.0"]),
            ("b", ["codex", "0.9.0"]),
            ("c.partial", ["codex", "2.0.0"]),
        ):
            (tmp_path / "kits" / folder).mkdir(parents=True)
            (tmp_path / "kits" / folder / public.NOTE).write_text(json.dumps(note))
        found = {
            view.name: view for view in await engine.agents.views(await engine.agents.known.records.all({}))
        }
        assert set(found) == set(catalog.names())
        codex, nop = found["codex"], found["nop"]
        assert (codex.version, codex.installed_versions) == ("0.166.0", ["0.9.0", "1.0.0"])
        assert codex.keys == {"openai": ["OPENAI_API_KEY"]}
        assert found["goose"].installed_versions == []
        assert (nop.version, nop.installed_versions, nop.keys) == (None, None, None)

    run(tmp_path, test)


def test_a_users_own_agent_cannot_say_that_it_is_a_public_one(tmp_path: Path) -> None:
    record = public.record(AgentChoice(name="codex", version="1.0.0"))
    assert record is not None
    for before in ("file", "link", "nothing"):
        folder = tmp_path / before
        folder.mkdir()
        if before == "link":
            (folder / public.NOTE).symlink_to("/etc/passwd")
        elif before == "file":
            (folder / public.NOTE).write_text("hostile")
        public.write_note(folder, record.model_copy(update={"is_public": False}))
        assert list(folder.iterdir()) == []
        public.write_note(folder, record)
    assert public.installed_versions(tmp_path) == {"codex": ["1.0.0"]}
    (tmp_path / "folder" / public.NOTE).mkdir(parents=True)
    assert public.installed_versions(tmp_path) == {"codex": ["1.0.0"]}


def published(monkeypatch: pytest.MonkeyPatch, package: Package) -> None:
    """Let `codex` be made of another package, which is small."""

    def of(_cls: type[PublicAgent[Any]], version: str) -> Package:
        return Package(package.type, package.name, version, package.more, package.setup, package.programs)

    monkeypatch.setattr("benchyard.agents.codex.CodexAgent.package", classmethod(of))


def test_an_install_is_kept_with_the_loader_of_its_kit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(monkeypatch, SEMVER)

    async def test(engine: Engine, tools: EngineContext) -> None:
        choice = await engine.agents.resolve("codex", None, "7.6.3", {})
        both = await asyncio.gather(engine.agents.ready(choice), engine.agents.ready(choice))
        (agent, shown), (_, again) = both
        assert shown == again
        folder, kit = shown[0].source, shown[1]
        assert shown[0].target == "/opt/benchyard/agents/agt_public_codex_7_6_3"
        assert isinstance(agent, PublicAgent)
        assert agent.installed is not None
        assert agent.installed.folder == shown[0].target
        assert elf.loader((folder / "own/program").read_bytes()) == f"{kit.target}/loader"
        assert (folder / "lib/node_modules/is-number/index.js").exists()
        views = await engine.agents.views(await engine.agents.known.records.all({"name": "codex"}))
        assert views[0].installed_versions == ["7.6.3"]
        assert tools.host.with_disk() == set()

    run(tmp_path, test, "native")


def test_a_version_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published(monkeypatch, SEMVER)

    async def test(engine: Engine, tools: EngineContext) -> None:
        with pytest.raises(InstallFailed) as caught:
            await engine.agents.ready(await engine.agents.resolve("codex", None, "7.999.0", {}))
        said = caught.value.message
        assert "agent codex@7.999.0 could not be installed" in said
        assert "the registry has no version 7.999.0 of semver" in said

    run(tmp_path, test, "native")
