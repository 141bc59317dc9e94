"""Budgets of requests, tokens and dollars, of a trial and of a job."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web
from genai_prices import Usage as Priced
from genai_prices import calc_price
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given, settings
from hypothesis import strategies as some

from benchyard.gateway import accounts
from benchyard.gateway.accounts import Tally
from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects import catalog
from benchyard.gateway.grants import GrantBudget
from benchyard.gateway.records.prices import cost_usd
from tests.gateway.station import (
    MODEL,
    TOKEN,
    Replied,
    Station,
    events,
    eventually,
    live,
    message,
    streamed,
    well,
)


def refused(reply: Replied, words: str) -> None:
    dialect = catalog.dialect_named("anthropic")
    assert dialect is not None
    assert reply.status == 402
    assert words in reply.json["error"]["message"]
    assert reply.json == dialect.refusal("budget", reply.json["error"]["message"])


@pytest.mark.parametrize("budget", [GrantBudget(requests=0), GrantBudget(tokens=0), GrantBudget(usd=0.0)])
@live
async def test_a_budget_of_nothing_refuses_the_first_request(tmp_path: Path, budget: GrantBudget) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant(budget=budget)
        refused(await station.ask(), "the budget of the trial is used up: 0")
        spent = await station.spent()
        assert spent.calls == 0
        assert spent.over_budget is not None
        assert "used up" in spent.over_budget
        assert station.behind.seen == []


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (GrantBudget(requests=2), "2 of 2 requests"),
        (GrantBudget(tokens=30), "30 of 30 tokens"),
        (GrantBudget(usd=0.0002), "0.0002 of 0.0002 US dollars"),
    ],
)
@live
async def test_a_budget_refuses_the_request_after_it_is_used_up(
    tmp_path: Path, budget: GrantBudget, words: str
) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant(budget=budget)
        assert [(await station.ask()).status for _ in range(2)] == [200, 200]
        refused(await station.ask(), words)
        refused(await station.ask(), words)
        spent = await station.spent()
        assert (spent.calls, spent.usage.total_tokens) == (2, 30)
        assert spent.over_budget == f"the budget of the trial is used up: {words}"
        assert len(station.behind.seen) == 2


@live
async def test_requests_in_flight_count(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def answer(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        await go_on.wait()
        return web.json_response(message())

    async with Station(tmp_path / "gateway") as station:
        station.behind.answer = answer
        await station.grant(budget=GrantBudget(requests=3))
        asked = [asyncio.create_task(station.ask()) for _ in range(8)]
        await eventually(lambda: sum(task.done() for task in asked) == 5, "five are refused")
        go_on.set()
        replies = await asyncio.gather(*asked)
        assert sorted(reply.status for reply in replies) == [200] * 3 + [402] * 5
        assert len(station.behind.seen) == 3


@live
async def test_a_job_shares_its_budget_even_with_trials_that_have_ended(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        tokens = [f"{TOKEN}-{number}" for number in range(3)]
        for number, token in enumerate(tokens):
            await station.grant(
                id=f"trial-{number}", token=token, group="job", group_budget=GrantBudget(tokens=30)
            )
        assert (await station.ask(headers={"x-api-key": tokens[0]})).status == 200
        await station.ledger.revoke("trial-0")
        assert (await station.ask(headers={"x-api-key": tokens[1]})).status == 200
        refused(await station.ask(headers={"x-api-key": tokens[2]}), "the budget of the job is used up: 30")
        assert (await station.spent("trial-2")).over_budget is not None
        assert (await station.spent("trial-1")).over_budget is None
        # A group of its own is not touched by that.
        other = "token-of-another-job"
        await station.grant(id="free", token=other, group="two", group_budget=GrantBudget(tokens=30))
        assert (await station.ask(headers={"x-api-key": other})).status == 200


@live
async def test_a_budget_in_dollars_ends_with_a_model_that_has_no_price(tmp_path: Path) -> None:
    async def answer(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        return web.json_response(message(model="somebodys-own-model"))

    async with Station(tmp_path / "gateway") as station:
        station.behind.answer = answer
        await station.grant(budget=GrantBudget(usd=100.0))
        assert (await station.ask(body=b'{"model": "somebodys-own-model"}')).status == 200
        refused(await station.ask(), "its model has no known price")
        spent = await station.spent()
        assert (spent.cost_usd, spent.usage.total_tokens) == (None, 15)
        (call,) = await station.calls()
        assert call.cost_usd is None


@live
async def test_answers_that_do_not_say_what_they_used_wear_a_budget_out(tmp_path: Path) -> None:
    async def answer(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        return await streamed(request, events()[:-1])

    async with Station(tmp_path / "gateway") as station:
        station.behind.answer = answer
        await station.grant(budget=GrantBudget(tokens=1000))
        for _ in range(accounts.MOST_UNMETERED):
            assert (await station.ask()).status == 200
        refused(await station.ask(), "answers did not say what they used")


@live
async def test_a_refusal_of_the_provider_costs_nothing(tmp_path: Path) -> None:
    async def answer(_request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        return web.json_response({"type": "error", "error": {"message": "no such model"}}, status=404)

    async with Station(tmp_path / "gateway") as station:
        station.behind.answer = answer
        await station.grant(budget=GrantBudget(usd=1.0))
        for _ in range(3):
            assert (await station.ask()).status == 404
        spent = await station.spent()
        assert (spent.calls, spent.cost_usd, spent.last_status) == (3, 0.0, 404)
        assert spent.last_error == "HTTP 404: no such model"
        station.behind.answer = well
        await station.ask()
        spent = await station.spent()
        assert (spent.last_error, spent.last_status) == (None, 200)


@live
async def test_usage_is_known_after_a_restart(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant(group="job", budget=GrantBudget(requests=1))
        await station.ask()
        refused(await station.ask(), "1 of 1 requests")
        before = await station.spent()
    async with Station(tmp_path / "gateway") as station:
        assert await station.grant(group="job", budget=GrantBudget(requests=1)) == before
        refused(await station.ask(), "1 of 1 requests")
        # What ended trials of the job had used counts, too.
        await station.ledger.revoke("trial")
    async with Station(tmp_path / "gateway") as station:
        await station.grant(id="next", group="job", group_budget=GrantBudget(requests=1))
        refused(await station.ask(), "the budget of the job is used up: 1 of 1 requests")


def test_prices_are_those_of_the_list_or_unknown() -> None:
    usage = TokenUsage(input_tokens=100_000, output_tokens=100_000)
    assert cost_usd("anthropic", (MODEL,), usage) == pytest.approx(1.8)
    assert cost_usd("anthropic", ("unheard-of", None, MODEL), usage) == pytest.approx(1.8)
    cached = TokenUsage(input_tokens=100_000, cached_tokens=100_000)
    assert cost_usd("anthropic", (MODEL,), cached) == pytest.approx(0.03)
    assert cost_usd("anthropic", ("unheard-of", None), usage) is None
    assert cost_usd("nobody", (MODEL,), usage) is None
    assert cost_usd(None, (MODEL,), usage) is None
    assert cost_usd("anthropic", (MODEL,), TokenUsage(input_tokens=1, cached_tokens=5)) is None


PROVIDERS = ("anthropic", "openai", "google", "deepseek", "perplexity")
LISTED = [(each.id, model.id) for each in get_snapshot().providers for model in each.models]
COUNTS = some.integers(0, 300_000) | some.sampled_from([0, 1, 128_000, 200_000, 200_001, 272_001])


@settings(max_examples=300, deadline=None)
@given(
    some.sampled_from([each for each in LISTED if each[0] in PROVIDERS]),
    some.builds(TokenUsage, COUNTS, COUNTS, COUNTS | some.just(0), COUNTS | some.just(0)),
)
def test_prices_are_those_of_the_list_to_the_last_digit(listed: tuple[str, str], usage: TokenUsage) -> None:
    provider, model = listed
    priced = Priced(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    try:
        expected = float(calc_price(priced, model, provider_id=provider).total_price)
    except (LookupError, ValueError):
        assert cost_usd(provider, (model,), usage) is None
    else:
        assert cost_usd(provider, (model,), usage) == pytest.approx(expected, rel=1e-15, abs=1e-15)


@live
async def test_forgotten_usage_no_longer_counts_for_its_group(tmp_path: Path) -> None:
    """As it would not after the next start: whoever forgets it takes it off the budget."""
    async with Station(tmp_path / "gateway") as station:
        shared = {"group": "job", "group_budget": GrantBudget(requests=1)}
        await station.grant(**shared)
        assert (await station.ask()).status == 200
        await station.ledger.revoke("trial")
        await station.grant(id="second", **shared)
        refused(await station.ask(), "the budget of the job is used up: 1 of 1 requests")
        await station.ledger.forget("trial")
        assert (await station.ask()).status == 200


def test_a_budget_without_limits_adds_nothing_up() -> None:
    class Untouchable:
        def __iter__(self) -> Iterator[Tally]:
            raise AssertionError

    assert accounts.budget_refusal(GrantBudget(), Untouchable(), "job") is None


@live
async def test_requests_that_are_not_calls_are_counted_as_requests_only(tmp_path: Path) -> None:
    async with Station(tmp_path / "gateway") as station:
        await station.grant(budget=GrantBudget(requests=3))
        assert (await station.ask("/anthropic/v1/models", method="GET")).status == 200
        assert (await station.ask("/anthropic/v1/messages/count_tokens")).status == 200
        assert (await station.ask()).status == 200
        spent = await station.spent()
        assert (spent.calls, spent.others, spent.requests, spent.over_budget) == (1, 2, 3, None)
        late = await station.ask("/anthropic/v1/models", method="GET")
        assert (late.status, len(station.behind.seen)) == (402, 3)
        assert "3 of 3 requests" in late.body.decode()
        refused(await station.ask(), "3 of 3 requests")
        spent = await station.spent()
        assert (spent.requests, spent.over_budget is not None) == (3, True)
        assert [call.path for call in await station.calls()] == ["/v1/messages"]


@live
async def test_a_job_counts_requests_that_are_not_calls_also_after_a_crash(tmp_path: Path) -> None:
    budget = GrantBudget(requests=2)
    async with Station(tmp_path / "gateway") as station:
        await station.grant(group="job", group_budget=budget)
        assert (await station.ask("/anthropic/v1/models", method="GET")).status == 200
        assert (await station.spent()).requests == 1
    async with Station(tmp_path / "gateway") as station:
        assert (await station.grant(group="job", group_budget=budget)).requests == 1
        await station.grant(id="other", token="other-token-0123456789", group="job", group_budget=budget)
        other = {"x-api-key": "other-token-0123456789"}
        assert (await station.ask(headers=other)).status == 200
        refused(await station.ask(), "the budget of the job is used up: 2 of 2 requests")
