"""What a devbox was given is known, whatever became of the secrets."""

from pathlib import Path

from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.secrets import scrubber_of, values_of_devbox
from benchyard.engine.engine import Engine
from benchyard.models.devboxes import DevboxRequest, DevboxStatus
from benchyard.models.secrets import SecretRequest
from tests.engine.yard import run

FIRST, SECOND, OTHER = "the-first-value", "the-second-value", "a-value-of-its-own"


async def started(engine: Engine, tools: EngineContext) -> None:
    for name, value in (("KEY", FIRST), ("OTHER", OTHER)):
        request = SecretRequest.model_validate({"name": name, "value": value})
        await tools.secrets.create(f"sec_{name}", request, None)
    await engine.devboxes.create(Caller("dbx_1"), DevboxRequest(secrets={"TOKEN": "KEY"}))
    assert (await engine.devboxes.wait_until_booted("dbx_1")).status is DevboxStatus.RUNNING


async def hidden(tools: EngineContext, devbox_id: str, *more: str) -> set[str]:
    scrubber = await scrubber_of(tools, devbox_id, more)
    return {value for value in (FIRST, SECOND, OTHER) if scrubber.text(value) == "***"}


def test_every_value_that_a_devbox_was_started_with_is_known(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        await started(engine, tools)
        assert await hidden(tools, "dbx_1") == {FIRST}
        await tools.secrets.update("sec_KEY", SECOND)
        assert await hidden(tools, "dbx_1") == {FIRST}
        await engine.devboxes.suspend("dbx_1")
        await tools.work.settle("devbox/")
        await engine.devboxes.resume("dbx_1")
        await engine.devboxes.wait_until_booted("dbx_1")
        assert await hidden(tools, "dbx_1") == {FIRST, SECOND}
        await tools.secrets.delete("sec_KEY")
        await engine.devboxes.shutdown("dbx_1", force=True)

    async def later(engine: Engine, tools: EngineContext) -> None:
        assert await hidden(tools, "dbx_1", "OTHER", "NOT_THERE") == {FIRST, SECOND, OTHER}
        devbox = await engine.devboxes.get("dbx_1")
        assert values_of_devbox(tools.vault, devbox) == [FIRST, SECOND]
        for value in (FIRST, SECOND):
            assert value not in devbox.model_dump_json()
            assert value not in repr(devbox)

    run(tmp_path, scenario)
    run(tmp_path, later)


def test_an_unknown_devbox_has_only_the_named_secrets(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        await started(engine, tools)
        assert await hidden(tools, "dbx_nobody") == set()
        assert await hidden(tools, "", "sec_OTHER") == {OTHER}

    run(tmp_path, scenario)


def test_a_devbox_without_secrets_stores_none(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        devbox = await engine.devboxes.create(Caller("dbx_1"), DevboxRequest())
        assert devbox.given is None
        assert (await scrubber_of(tools, "dbx_1")).longest == 0

    run(tmp_path, scenario)
