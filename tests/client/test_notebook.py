"""What a notebook shows: real parameters in `help()`, a line for each object, one frame for a refusal."""

import asyncio
import pydoc
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import benchyard.client
from benchyard import AsyncBenchyard, Benchyard
from benchyard.client import AsyncClient, Client, Server
from benchyard.client.nouns import Nouns
from benchyard.client.resources.executions import Commands
from benchyard.client.resources.scenarios import Scenarios
from benchyard.errors import BenchyardError, NotFound, ServerUnreachable, UsageError
from tests.client.stub import Answer, devbox, error, stub

NOWHERE = Server("http://127.0.0.1:9", "key_of_nobody")
LINE = 120


def help_of(thing: object) -> str:
    return pydoc.plain(pydoc.render_doc(thing))


def test_help_on_a_group_shows_the_parameters_of_its_verbs() -> None:
    text = help_of(Scenarios)
    assert "archive(self, id: str) -> benchyard.models.scenarios.ScenarioView" in text
    assert "create(self, *, environment_parameters:" in text
    assert "Hide a scenario from lists" in text
    assert " object>" not in text


def test_help_on_a_method_shows_its_own_parameters() -> None:
    with Client(NOWHERE) as client, Benchyard(NOWHERE.url, NOWHERE.key) as yard:
        told = help_of(client.scenarios.runs.await_scored)
        assert "await_scored(id: str, timeout: float | None = None)" in told
        run = yard.scenario.from_id("scn_1").get_info
        assert "get_info() -> benchyard.models.scenarios.ScenarioView" in help_of(run)
        assert "validate(*given: str | os.PathLike[str], env_vars:" in help_of(client.scenarios.validate)
        assert "-> list[benchyard.client.benchmark_files.results.ScenarioValidation]" in help_of(
            client.benchmarks.validate
        )


def test_help_shows_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-shown-to-nobody")
    with Client(NOWHERE) as client:
        for noun in vars(client).values():
            assert "sk-shown-to-nobody" not in help_of(type(noun))


def test_objects_fit_a_line() -> None:
    with Client(NOWHERE) as client, Benchyard(NOWHERE.url, NOWHERE.key) as yard:
        nouns = {**vars(client), **vars(yard)}
        del nouns["session"]
        things: list[object] = [client, yard, *nouns.values()]
        things += [yard.snapshot.from_id("snp_1"), Commands(client.session, "dbx_1")]
        for thing in things:
            assert "\n" not in repr(thing)
            assert len(repr(thing)) <= LINE, thing
            assert " object at 0x" not in repr(thing)
        assert NOWHERE.key not in "".join(repr(thing) for thing in things)


def test_views_fit_a_line() -> None:
    with stub(lambda asked: Answer(devbox(name="n" * 300))) as server, Client(server.server) as client:
        view = client.devboxes.get("dbx_1")
    assert len(repr(view)) <= LINE
    assert repr(view).startswith("DevboxView(id='dbx_1', status='running'")
    assert repr(view).endswith(" more fields)")


def frames(refused: Callable[[], object], kind: type[BenchyardError]) -> list[str]:
    with pytest.raises(kind) as caught:
        refused()
    whole = "".join(traceback.format_exception(caught.value))
    assert "During handling" not in whole
    assert "direct cause" not in whole
    return [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]


def ours(names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(benchyard.client.__path__[0])]


REFUSALS: list[tuple[Callable[[Any], object], type[BenchyardError]]] = [
    (lambda client: client.devboxes.get(".."), UsageError),
    (lambda client: client.devboxes.get("dbx_1"), NotFound),
    (lambda client: client.scenarios.list(), NotFound),
    (lambda client: list(client.devboxes.list()), NotFound),
    (lambda client: client.scenarios.push("/nowhere"), BenchyardError),
    (lambda client: client.benchmarks.validate("/nowhere"), UsageError),
]


@pytest.mark.parametrize(("refused", "kind"), REFUSALS)
def test_a_refusal_is_one_frame(refused: Callable[[Any], object], kind: type[BenchyardError]) -> None:
    with stub(lambda asked: error(404, "not_found")) as server, Client(server.server) as client:
        assert len(ours(frames(lambda: refused(client), kind))) <= 1


def test_a_refusal_that_is_awaited_is_one_frame() -> None:
    async def ask() -> None:
        async with AsyncClient(server.server) as client:
            await client.devboxes.get("dbx_1")

    async def page() -> None:
        async with AsyncClient(server.server) as client:
            async for _ in client.scenarios.list():
                pass

    with stub(lambda asked: error(404, "not_found")) as server:
        assert len(ours(frames(lambda: asyncio.run(ask()), NotFound))) <= 1
        assert len(ours(frames(lambda: asyncio.run(page()), NotFound))) <= 2


def test_a_server_that_is_away_is_reported_in_a_sentence(
    unused_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchyard.client.operations, "FIRST_DELAY", 0.001)
    with Benchyard(unused_url, "key_of_nobody") as yard:
        names = frames(yard.devbox.create, ServerUnreachable)
    assert len(ours(names)) <= 1


def test_a_mistake_of_the_client_itself_keeps_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("benchyard.client.resources.devboxes.fetch", broken)
    with Client(NOWHERE) as client, pytest.raises(ZeroDivisionError) as caught:
        client.devboxes.get("dbx_1")
    assert len(traceback.extract_tb(caught.value.__traceback__)) > 3


def test_every_noun_of_both_clients_is_the_same_class() -> None:
    async def kinds() -> dict[str, type]:
        async with AsyncBenchyard(NOWHERE.url, NOWHERE.key) as yard:
            return {name: type(noun) for name, noun in vars(yard.api).items() if name != "session"}

    with Client(NOWHERE) as client:
        assert isinstance(client, Nouns)
        assert {name: type(noun) for name, noun in vars(client).items() if name != "session"} == asyncio.run(
            kinds()
        )
