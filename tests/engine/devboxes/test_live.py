import asyncio
from collections.abc import Awaitable, Callable

import pytest

from benchyard.engine.devboxes.live import LiveDevboxes
from benchyard.engine.devboxes.states import Move, record_after_move
from benchyard.errors import Conflict, NotFound
from benchyard.models.devboxes import Devbox, DevboxStatus, StateTransition
from benchyard.store.database import Store

S = DevboxStatus


def devbox(id: str = "dbx_1") -> Devbox:
    begin = StateTransition(status=S.PROVISIONING, transition_time_ms=1)
    return Devbox(id=id, create_time_ms=1, image="host", state_transitions=[begin], request_hash="h")


def run(url: str, scenario: Callable[[LiveDevboxes], Awaitable[None]]) -> None:
    async def live() -> None:
        async with Store(url) as store:
            await scenario(LiveDevboxes(store.collection("devboxes", Devbox)))

    asyncio.run(live())


def test_a_waiter_is_woken_by_the_change_it_waits_for(database_url: str) -> None:
    async def scenario(live_devboxes: LiveDevboxes) -> None:
        await live_devboxes.add(devbox())
        waiting = asyncio.create_task(
            live_devboxes.wait("dbx_1", lambda record: record.status is S.RUNNING, 30)
        )
        await asyncio.sleep(0)
        for status in (S.INITIALIZING, S.RUNNING):
            await live_devboxes.change(
                "dbx_1",
                lambda record, to=status: record_after_move(record, Move(to), 2),  # type: ignore[misc]
            )
        assert (await waiting).status is S.RUNNING

    run(database_url, scenario)


def test_a_wait_that_is_over_gives_what_there_is(database_url: str) -> None:
    async def scenario(live_devboxes: LiveDevboxes) -> None:
        await live_devboxes.add(devbox())
        found = await live_devboxes.wait("dbx_1", lambda record: record.status is S.RUNNING, 0.01)
        assert found.status is S.PROVISIONING
        with pytest.raises(NotFound):
            await live_devboxes.wait("dbx_2", lambda record: True, 0.01)

    run(database_url, scenario)


def test_live_records_come_back_after_a_restart_and_ended_ones_do_not(database_url: str) -> None:
    async def before(live_devboxes: LiveDevboxes) -> None:
        for id in ("dbx_1", "dbx_2"):
            await live_devboxes.add(devbox(id))
        await live_devboxes.change("dbx_2", lambda record: record_after_move(record, Move(S.SHUTDOWN), 2))
        assert [record.id for record in live_devboxes.live()] == ["dbx_1"]

    async def after(live_devboxes: LiveDevboxes) -> None:
        assert live_devboxes.live() == []
        await live_devboxes.load()
        assert [record.id for record in live_devboxes.live()] == ["dbx_1"]
        assert (await live_devboxes.get("dbx_2")).status is S.SHUTDOWN

    run(database_url, before)
    run(database_url, after)


def test_a_refused_change_leaves_record_and_memory_alone(database_url: str) -> None:
    async def scenario(live_devboxes: LiveDevboxes) -> None:
        await live_devboxes.add(devbox())
        with pytest.raises(Conflict):
            await live_devboxes.change(
                "dbx_1", lambda record: record_after_move(record, Move(S.SUSPENDED), 2)
            )
        assert (await live_devboxes.get("dbx_1")).status is S.PROVISIONING
        assert (await live_devboxes.records.get("dbx_1")).status is S.PROVISIONING

    run(database_url, scenario)


def test_the_same_request_adds_one_record(database_url: str) -> None:
    async def scenario(live_devboxes: LiveDevboxes) -> None:
        first, is_new = await live_devboxes.add(devbox())
        again, is_new_again = await live_devboxes.add(devbox())
        assert (is_new, is_new_again, again) == (True, False, first)

    run(database_url, scenario)
