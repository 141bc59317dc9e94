"""Builds from Dockerfiles, with a builder that makes small images in the real store."""

import asyncio
import contextlib
import io
import tarfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchyard.devboxes.base import Capability
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.engine import Engine
from benchyard.errors import BenchyardError, BuildFailed, NotFound, NotSupported, UsageError
from benchyard.hosts import leaks
from benchyard.hosts.host import ExecRequest
from benchyard.images.aliases import Aliases
from benchyard.images.builders.base import Builder, BuildRecipe, BuiltImage, Log
from benchyard.images.store import Image, ImageIdentity, ImageStore
from benchyard.models.blueprints import Blueprint, BlueprintRequest, BlueprintStatus
from benchyard.models.devboxes import DevboxRequest
from benchyard.models.images import AliasView, ImageImportRequest
from benchyard.models.objects import ObjectRequest
from benchyard.models.secrets import SecretRequest
from tests.engine.yard import run
from tests.images.archives import PASSWD, layer

PATIENCE_SECONDS = 60.0

_S = BlueprintStatus


class SmallBuilder(Builder):
    """Makes an image of the machine's system with the recipe's Dockerfile at /recipe; notes what it saw."""

    def __init__(self, images: ImageStore) -> None:
        self.images = images
        self.recipes: list[BuildRecipe] = []
        self.contexts: list[dict[str, bytes]] = []
        self.under_way = self.most = 0
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.fails: BuildFailed | None = None
        self.parent = "host"

    async def pull(self, reference: str, identity: ImageIdentity, log: Log) -> Image:
        raise BuildFailed(f"there is no registry here to get {reference} from")

    async def build(self, recipe: BuildRecipe, identity: ImageIdentity, log: Log) -> BuiltImage:
        self.recipes.append(recipe)
        self.contexts.append(_content(recipe.context))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            log(f"building with {' '.join(recipe.secrets.values())}")
            await self.may_end.wait()
        finally:
            self.under_way -= 1
        if self.fails:
            raise self.fails
        async with self.images.scratch() as scratch:
            changes = scratch / "changes"
            changes.mkdir()
            changes.chmod(0o755)
            (changes / "recipe").write_text(recipe.dockerfile)
            parent = await self.images.get(next(iter(recipe.bases.values()), self.parent))
            made = await self.images.add_layer(parent, changes, identity.id, move=True, kind="image")
        return BuiltImage(made, {"ubuntu:22.04": "debian"})


def _content(folder: Path | None) -> dict[str, bytes]:
    if folder is None:
        return {}
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


async def made(engine: Engine, id: str = "bpt_1", **fields: Any) -> Blueprint:
    """A blueprint, begun."""
    request = BlueprintRequest.model_validate({"name": f"name-of-{id}", **fields})
    return await engine.blueprints.create(Caller(id), request)


async def ended(engine: Engine, id: str = "bpt_1") -> Blueprint:
    """A blueprint whose build has ended."""
    await reaches(engine, id, _S.BUILD_COMPLETE, _S.FAILED)
    return await engine.blueprints.records.get(id)


async def reaches(engine: Engine, id: str, *statuses: BlueprintStatus) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (await engine.blueprints.records.get(id)).status not in statuses:
        assert time.monotonic() < deadline, f"waited {PATIENCE_SECONDS} s for {statuses}"
        await asyncio.sleep(0.01)


async def said(engine: Engine, id: str = "bpt_1") -> str:
    return "\n".join(line.message for line in await engine.blueprints.logs(id))


async def shown(engine: Engine, tools: EngineContext, command: str, blueprint_id: str = "bpt_1") -> str:
    """What a command prints in a devbox of a blueprint."""
    id = f"dbx_{time.monotonic_ns()}"
    await engine.devboxes.create(Caller(id), DevboxRequest(blueprint_id=blueprint_id))
    await engine.devboxes.wait_until_booted(id)
    await tools.host.exec(id, ExecRequest(id="look", command=command))
    await tools.host.wait(id, "look", PATIENCE_SECONDS)
    text, _ = await tools.host.tail(id, "look", "stdout", 100)
    await engine.devboxes.shutdown(id, force=True)
    await tools.work.settle(f"devbox/{id}")
    return text


async def uploaded(tools: EngineContext, files: Mapping[str, bytes | str], *, complete: bool = True) -> str:
    """The id of an object: a tgz with these files, or links where a value is text."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                tar.addfile(member)
            else:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    id = f"obj_{time.monotonic_ns()}"
    await tools.objects.create(id, ObjectRequest(name="context", content_type="tgz"), None)

    async def pieces() -> AsyncIterator[bytes]:
        yield packed.getvalue()

    await tools.objects.upload(id, pieces())
    if complete:
        await tools.objects.complete(id)
    return id


def in_context(object_id: str) -> dict[str, str]:
    return {"type": "object", "object_id": object_id}


def beside(data: Path) -> Path:
    """A folder of archives: imports take none from the server's own."""
    folder = data.with_name(f"{data.name}-archives")
    folder.mkdir(exist_ok=True)
    return folder


def test_a_dockerfile_is_built_with_all_it_needs_and_the_steps_come_on_top(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        secret = SecretRequest.model_validate({"name": "TOKEN", "value": "open-sesame"})
        await tools.secrets.create("sec_1", secret, None)
        context = await uploaded(tools, {"a/file": b"in the context"})
        await made(
            engine,
            dockerfile="FROM ubuntu:22.04\n",
            build_args={"VERSION": "3"},
            secrets={"PASS": "TOKEN"},
            build_context=in_context(context),
            system_setup_commands=["cat /recipe; echo on top > ~/file"],
        )
        blueprint = await ended(engine)
        assert blueprint.status is _S.BUILD_COMPLETE, blueprint
        assert isinstance(tools.builder, SmallBuilder)
        recipe = tools.builder.recipes[0]
        assert (recipe.args, recipe.secrets) == ({"VERSION": "3"}, {"PASS": "open-sesame"})
        assert tools.builder.contexts == [{"a/file": b"in the context"}]
        assert await shown(engine, tools, "cat /recipe ~/file") == "FROM ubuntu:22.04\non top\n"
        log = await said(engine)
        assert "building with ***" in log
        assert "open-sesame" not in log
        assert "substituted base: image debian stands in for ubuntu:22.04" in log
        assert {image.id for image in await tools.images.list()} == {"host", "bpt_1"}
        assert [view.id for view in await engine.library.list()] == ["host"]
        with pytest.raises(UsageError, match="is a blueprint"):
            await engine.library.delete("bpt_1")

    run(tmp_path, scenario, "native", SmallBuilder)
    assert leaks.find(tmp_path) == []


def test_a_dockerfile_without_steps_is_the_image_and_may_lie_in_the_context(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        context = await uploaded(tools, {"Dockerfile": b"FROM inside\n"})
        await made(engine, build_context=in_context(context))
        assert (await ended(engine)).status is _S.BUILD_COMPLETE
        assert await shown(engine, tools, "cat /recipe") == "FROM inside\n"

    run(tmp_path, scenario, "native", SmallBuilder)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"other": b"x"}, "no Dockerfile in the context"),
        ({"Dockerfile": "/etc/passwd"}, "no Dockerfile in the context"),
        ({"Dockerfile": b"\xff\xfe"}, "UTF-8"),
        ({"Dockerfile": b"#" * (1024**2 + 1)}, "over"),
        ({"../Dockerfile": b"FROM x"}, "leave"),
        ({"Dockerfile/inner": b"x"}, "not a file"),
    ],
)
def test_a_context_that_cannot_be_built_fails_the_build(
    tmp_path: Path, files: dict[str, bytes | str], reason: str
) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        await made(engine, build_context=in_context(await uploaded(tools, files)))
        blueprint = await ended(engine)
        assert (blueprint.status, blueprint.failure_reason) == (_S.FAILED, "build_failed")
        assert reason in (blueprint.error_message or "")
        assert reason in await said(engine)
        assert list((tmp_path / "images" / "partial").iterdir()) == []

    run(tmp_path, scenario, "native", SmallBuilder)


def test_a_dockerfile_can_continue_a_base_blueprint(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        await made(engine, "bpt_base", name="base", system_setup_commands=["echo below > ~/below"])
        await ended(engine, "bpt_base")
        await made(engine, base_blueprint_name="base", dockerfile="# syntax=x\nRUN true\n")
        assert (await ended(engine)).status is _S.BUILD_COMPLETE
        assert isinstance(tools.builder, SmallBuilder)
        recipe = tools.builder.recipes[0]
        assert recipe.dockerfile == "# syntax=x\nFROM bpt_base\nRUN true\n"
        assert recipe.bases == {"bpt_base": "bpt_base", "base": "bpt_base"}
        assert await shown(engine, tools, "cat ~/below") == "below\n"

    run(tmp_path, scenario, "native", SmallBuilder)


def test_a_builders_failure_is_recorded_with_its_reason(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        assert isinstance(tools.builder, SmallBuilder)
        tools.builder.fails = BuildFailed("step 3 ended with 137", "out_of_memory")
        await made(engine, dockerfile="FROM x")
        blueprint = await ended(engine)
        assert (blueprint.failure_reason, blueprint.error_message) == (
            "out_of_memory",
            "step 3 ended with 137",
        )
        assert "step 3 ended with 137" in await said(engine)
        assert {image.id for image in await tools.images.list()} == {"host"}

    run(tmp_path, scenario, "native", SmallBuilder)


def test_no_more_builds_run_at_once_than_allowed(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        builder = tools.builder
        assert isinstance(builder, SmallBuilder)
        builder.may_end.clear()
        for number in range(5):
            await made(engine, f"bpt_{number}", dockerfile=f"FROM {number}")
        deadline = time.monotonic() + PATIENCE_SECONDS
        # Which two begin is not promised.
        while builder.under_way < 2:
            assert time.monotonic() < deadline, builder.under_way
            await asyncio.sleep(0.01)
        statuses = [(await engine.blueprints.records.get(f"bpt_{number}")).status for number in range(5)]
        assert sorted(statuses) == [_S.BUILDING] * 2 + [_S.QUEUED] * 3
        builder.may_end.set()
        for number in range(5):
            assert (await ended(engine, f"bpt_{number}")).status is _S.BUILD_COMPLETE
        assert builder.most == 2

    run(tmp_path, scenario, "native", SmallBuilder, builds_at_once=2)


def test_a_stop_in_the_middle_is_taken_up_again_and_counts_nothing(tmp_path: Path) -> None:
    def held(images: ImageStore) -> SmallBuilder:
        # From the very beginning: what is taken up is built before anybody here has a say.
        builder = SmallBuilder(images)
        builder.may_end.clear()
        return builder

    async def before(engine: Engine, tools: EngineContext) -> None:
        await made(engine, dockerfile="FROM x")
        await reaches(engine, "bpt_1", _S.BUILDING)

    async def after(engine: Engine, tools: EngineContext) -> None:
        blueprint = await ended(engine)
        assert (blueprint.status, blueprint.attempts) == (_S.BUILD_COMPLETE, 1)

    for _ in range(3):
        run(tmp_path, before, "native", held)
    run(tmp_path, after, "native", SmallBuilder)


def test_on_demand_blueprint_is_built_once_for_all_requests(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        assert isinstance(tools.builder, SmallBuilder)
        await made(engine, dockerfile="FROM x", on_demand=True)
        await asyncio.gather(*(engine.blueprints.ready("bpt_1") for _ in range(5)))
        assert len(tools.builder.recipes) == 1
        # Who had read the record before it was complete begins once more, as often as may be.
        for _ in range(3):
            engine.blueprints._start("bpt_1")
            await tools.work.settle("blueprint/")
        blueprint = await engine.blueprints.records.get("bpt_1")
        assert (blueprint.status, blueprint.attempts) == (_S.BUILD_COMPLETE, 1)
        assert (await tools.images.get("bpt_1")).id == "bpt_1"

    run(tmp_path, scenario, "native", SmallBuilder)


def test_an_alias_of_an_image_that_is_gone_does_not_stop_a_dockerfile(
    tmp_path: Path,
) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        assert isinstance(tools.builder, SmallBuilder)
        Aliases(tools.settings.data / "images").set("example.test/made:1", "gone")
        await made(engine, dockerfile="FROM x", prebuilt_image="example.test/made:1", on_demand=True)
        await engine.blueprints.ready("bpt_1")
        assert (await engine.blueprints.records.get("bpt_1")).status is _S.BUILD_COMPLETE
        assert len(tools.builder.recipes) == 1
        told = await said(engine)
        assert "names 'gone', which is not there any more" in told
        assert "benchyard image unalias" in told

    run(tmp_path, scenario, "native", SmallBuilder)


async def fails(engine: Engine) -> str:
    """What is said of a build on demand that fails."""
    with pytest.raises(BuildFailed, match="no such base") as caught:
        await engine.blueprints.ready("bpt_1")
    # Times are compared to the millisecond.
    await asyncio.sleep(0.01)
    return caught.value.message


def test_a_build_on_demand_ends_with_the_last_who_waits_for_it(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        builder = tools.builder
        assert isinstance(builder, SmallBuilder)
        builder.may_end.clear()
        await made(engine, dockerfile="FROM x", on_demand=True)
        waiting = [asyncio.create_task(engine.blueprints.ready("bpt_1")) for _ in range(2)]
        await until(lambda: builder.under_way == 1)
        collected = await engine.library.upkeep.collect(1024**5)
        assert collected.builds_under_way == 1
        waiting[0].cancel()
        await asyncio.wait(waiting[:1])
        await tools.work.settle("unwanted/bpt_1")
        assert builder.under_way == 1, "somebody waits for it still"
        waiting[1].cancel()
        await asyncio.wait(waiting)
        await until(lambda: builder.under_way == 0)
        await tools.work.settle("unwanted/bpt_1")
        assert (await engine.blueprints.records.get("bpt_1")).status is _S.QUEUED
        builder.may_end.set()
        await engine.blueprints.ready("bpt_1")
        assert (await engine.blueprints.records.get("bpt_1")).status is _S.BUILD_COMPLETE

    run(tmp_path, scenario, "native", SmallBuilder)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110  what is looked at has no event
            await asyncio.sleep(0.01)


def test_a_blueprint_stands_in_for_an_image(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        upkeep = engine.library.upkeep
        with pytest.raises(NotFound, match="no image and no blueprint 'base'"):
            await upkeep.set_alias(AliasView(reference="x", image="base"))
        (beside(tmp_path) / "root.tar").write_bytes(layer({"bin/sh": "root", "etc/passwd": PASSWD}))
        brought = ImageImportRequest(name="root", path=str(beside(tmp_path) / "root.tar"))
        await engine.library.import_image(brought, Caller("img_1"))
        assert isinstance(tools.builder, SmallBuilder)
        tools.builder.parent = "root"
        await made(engine, name="base", dockerfile="FROM y", on_demand=True)
        with pytest.raises(BenchyardError, match="bpt_1"):
            await upkeep.set_alias(AliasView(reference="x", image="base"))
        await engine.blueprints.ready("bpt_1")
        alias = await upkeep.set_alias(AliasView(reference="x", image="base"))
        assert alias.image == "bpt_1"
        assert upkeep.aliases() == [alias]

    run(tmp_path, scenario, "native", SmallBuilder)


def test_a_failed_one_on_demand_is_tried_again_once_something_was_brought(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        builder = tools.builder
        assert isinstance(builder, SmallBuilder)
        builder.fails = BuildFailed("no such base")
        await made(engine, dockerfile="FROM x", on_demand=True)
        assert "tried again" not in await fails(engine)
        assert "; tried again 10 minutes after that, or with a new image or alias" in await fails(engine)
        assert len(builder.recipes) == 1, "not tried again for nothing"
        (beside(tmp_path) / "base.tar").write_bytes(layer({"bin/sh": "base", "etc/passwd": PASSWD}))
        brought = ImageImportRequest(name="base", path=str(beside(tmp_path) / "base.tar"))
        image = await engine.library.import_image(brought, Caller("img_1"))
        assert "tried again" not in await fails(engine)
        await engine.library.upkeep.set_alias(AliasView(reference="x", image=image.id))
        assert "tried again" not in await fails(engine)
        assert len(builder.recipes) == 3
        await engine.library.upkeep.set_alias(AliasView(reference="x", image=image.id))
        builder.fails = None
        await engine.blueprints.ready("bpt_1")
        assert (await engine.blueprints.records.get("bpt_1")).status is _S.BUILD_COMPLETE

    run(tmp_path, scenario, "native", SmallBuilder)


def test_a_failed_one_on_demand_is_tried_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        assert isinstance(tools.builder, SmallBuilder)
        tools.builder.fails = BuildFailed("no such base")
        await made(engine, dockerfile="FROM x", on_demand=True)
        await fails(engine)
        tools.builder.fails = None
        await fails(engine)
        monkeypatch.setattr("benchyard.engine.images.blueprints.AGAIN_SECONDS", 0.005)
        await engine.blueprints.ready("bpt_1")

    run(tmp_path, scenario, "native", SmallBuilder)


def test_deleted_on_demand_blueprint_is_not_built(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        assert isinstance(tools.builder, SmallBuilder)
        tools.builder.may_end.clear()
        await made(engine, dockerfile="FROM x", on_demand=True)
        waiting = asyncio.create_task(engine.blueprints.ready("bpt_1"))
        await reaches(engine, "bpt_1", _S.BUILDING)
        await engine.blueprints.delete("bpt_1")
        with pytest.raises(BuildFailed, match=r"ended|deleted"):
            await waiting
        engine.blueprints._start("bpt_1")
        await tools.work.settle("blueprint/")
        blueprint = await engine.blueprints.records.get("bpt_1")
        assert (blueprint.status, blueprint.state, blueprint.image_state) == (_S.FAILED, "deleted", "none")
        assert len(tools.builder.recipes) == 1

    run(tmp_path, scenario, "native", SmallBuilder)


def test_a_base_on_demand_is_built_first(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        await made(engine, "bpt_base", dockerfile="FROM x", on_demand=True)
        await made(engine, base_blueprint_id="bpt_base", system_setup_commands=["true"])
        blueprint = await ended(engine)
        assert blueprint.status is _S.BUILD_COMPLETE, blueprint.error_message
        assert (await ended(engine, "bpt_base")).status is _S.BUILD_COMPLETE

    run(tmp_path, scenario, "native", SmallBuilder, builds_at_once=1)


def test_a_build_on_demand_that_a_stop_cut_short_leaves_nothing_and_is_begun_when_asked(
    tmp_path: Path,
) -> None:
    async def before(engine: Engine, tools: EngineContext) -> None:
        await made(engine, system_setup_commands=["sleep 1000"], on_demand=True)
        waiting = asyncio.create_task(engine.blueprints.ready("bpt_1"))
        await reaches(engine, "bpt_1", _S.BUILDING)
        waiting.cancel()

    async def after(engine: Engine, tools: EngineContext) -> None:
        assert (await engine.blueprints.records.get("bpt_1")).status is _S.QUEUED

    run(tmp_path, before, "native", SmallBuilder)
    run(tmp_path, after, "native", SmallBuilder)


def test_an_upload_that_comes_later_is_built_then(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        context = await uploaded(tools, {"Dockerfile": b"FROM late\n"}, complete=False)
        assert (await made(engine, build_context=in_context(context))).status is _S.AWAITING_UPLOAD
        await tools.objects.complete(context)
        assert (await ended(engine)).status is _S.BUILD_COMPLETE

    run(tmp_path, scenario, "native", SmallBuilder)


def test_the_layers_of_a_deleted_base_stay_until_the_build_on_it_has_ended(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        assert isinstance(tools.builder, SmallBuilder)
        await made(engine, "bpt_base", system_setup_commands=["echo below > ~/below"])
        await ended(engine, "bpt_base")
        tools.builder.may_end.clear()
        await made(engine, base_blueprint_id="bpt_base", dockerfile="RUN true")
        await reaches(engine, "bpt_1", _S.BUILDING)
        await engine.blueprints.delete("bpt_base")
        assert (await tools.images.get("bpt_base")).id == "bpt_base"
        tools.builder.may_end.set()
        assert (await ended(engine)).status is _S.BUILD_COMPLETE
        await engine.blueprints.collect()
        with pytest.raises(NotFound):
            await tools.images.get("bpt_base")
        assert await engine.blueprints.logs("bpt_base") == []
        assert await shown(engine, tools, "cat ~/below") == "below\n"

    run(tmp_path, scenario, "native", SmallBuilder)


def test_a_log_is_followed_while_it_grows_and_read_again_from_any_offset(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        commands = ["echo first; until [ -e /tmp/go ]; do sleep 0.05; done; rm /tmp/go; echo second"]
        await made(engine, system_setup_commands=commands)
        stream = await engine.blueprints.follow("bpt_1", 0)
        seen = []
        async with contextlib.aclosing(stream):  # type: ignore[type-var]
            async for update in stream:
                seen.append(update)
                if update.message == "first":
                    go = ExecRequest(id="go", command="touch /tmp/go")
                    await tools.host.exec("bpt_1-1", go)
        messages = [update.message for update in seen]
        assert messages[-3:] == ["first", "second", "build complete"]
        for start in (0, 2, len(seen)):
            offset = seen[start - 1].offset if start else 0
            again = [update async for update in await engine.blueprints.follow("bpt_1", offset)]
            assert again == seen[start:]

    run(tmp_path, scenario, "native")


def test_a_build_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        await made(engine, system_setup_commands=["sleep 1000 & sleep 1000"])
        blueprint = await ended(engine)
        assert "time limit" in (blueprint.error_message or "")
        assert tools.host.running() == set()

    run(tmp_path, scenario, "native", build_seconds=1.0)


@pytest.mark.parametrize(
    ("command", "reason", "setting"),
    [
        ("python3 -c 'x = bytearray(10**9)'", "out_of_memory", "build_memory_bytes"),
        ("head -c 300000000 /dev/zero > ~/big; sleep 1000", "out_of_disk", "build_disk_bytes"),
    ],
)
def test_a_build_that_uses_too_much_says_what(
    tmp_path: Path, command: str, reason: str, setting: str
) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        capabilities, _ = tools.host.report()
        if not {Capability.LIMIT_MEMORY, Capability.LIMIT_DISK} <= capabilities:
            pytest.skip("this machine does not limit the memory and disk of devboxes")
        await made(engine, system_setup_commands=[command])
        blueprint = await ended(engine)
        assert (blueprint.status, blueprint.failure_reason) == (_S.FAILED, reason), blueprint
        assert f"ran out of {reason.removeprefix('out_of_')}" in (blueprint.error_message or "")
        assert tools.host.running() == set()

    run(tmp_path, scenario, "native", **{setting: 100_000_000})
    assert leaks.find(tmp_path) == []


@pytest.mark.parametrize(("network", "is_alone"), [("none", True), ("host", False)])
def test_commands_reach_what_the_server_allows(tmp_path: Path, network: str, is_alone: bool) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        await made(engine, system_setup_commands=["readlink /proc/self/ns/net > ~/net; cat ~/net"])
        assert (await ended(engine)).status is _S.BUILD_COMPLETE
        own = str(Path("/proc/self/ns/net").readlink())
        assert (own in await said(engine)) is not is_alone

    run(tmp_path, scenario, "native", build_network=network)


def test_a_driver_without_images_builds_nothing(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        with pytest.raises(NotSupported, match="native driver"):
            await made(engine)
        assert await engine.blueprints.records.find("bpt_1") is None

    run(tmp_path, scenario)
