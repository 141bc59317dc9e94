"""`gateway`: what the gateway adds to a call of a model, side by side with mitmproxy in reverse mode."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp

from perf import machine, reverse_proxies
from perf.measure import Figure
from perf.options import Options
from perf.page import heading, table
from perf.reverse_proxies import TOKEN, Contender

_STREAMS = 64
_HELD = 200
_CALLS = 1500
_BODY = json.dumps(
    {
        "model": "claude-sonnet-4-5",
        "stream": True,
        "system": "be good " * 2000,
        "messages": [{"role": "user", "content": "hello " * 200}],
    }
).encode()
_HEADERS = {"x-api-key": TOKEN, "content-type": "application/json"}


def measure(folder: Path, options: Options) -> list[str]:
    """Latency at one and at many streams, memory per open stream, requests per second of one core."""
    return asyncio.run(_measure(folder, options))


async def _measure(folder: Path, options: Options) -> list[str]:
    program = await asyncio.to_thread(reverse_proxies.install_mitmproxy, folder)
    async with AsyncExitStack() as stack:
        port = stack.enter_context(reverse_proxies.model_server())
        contenders = [
            Contender("direct", f"http://127.0.0.1:{port}/v1/messages", None),
            await stack.enter_async_context(reverse_proxies.gateway(folder, port)),
            await stack.enter_async_context(reverse_proxies.mitmproxy(program, folder, port)),
        ]
        connector = aiohttp.TCPConnector(limit=0)
        client = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        for each in contenders[1:]:
            await _together(client, each)
        memory = {each.name: await _memory(each) for each in contenders[1:]}
        one = await _interleaved(client, contenders, options.rounds * 10, _alone)
        many = await _interleaved(client, contenders, options.rounds, _together)
        rates = {each.name: await _rate(client, each) for each in contenders[1:]}
    head = heading(f"A request of {len(_BODY) / 1000:.0f} kB, an answer of 45 events; interleaved.")
    ratio = rates["gateway"] / rates["mitmproxy"]
    rows = [
        _row("first byte, 1 stream, p50", one, 0),
        _row("whole answer, 1 stream, p50", one, 1),
        _row(f"first byte, {_STREAMS} streams at once, p50", many, 0),
        _row(f"whole answer, {_STREAMS} streams at once, p50", many, 1),
        ("requests per second of one core", "", *(f"{rates[name]:.0f}" for name in ("gateway", "mitmproxy"))),
        (
            f"memory per open stream ({_HELD} open)",
            "",
            *(f"{memory[name] / 1000:.0f} kB" for name in ("gateway", "mitmproxy")),
        ),
    ]
    names = ("", "direct", "through the gateway", "through mitmproxy 11")
    words = f"The gateway passes {ratio:.1f}x the requests of mitmproxy per core."
    return [head, *table(names, rows), "", words]


_Pair = tuple[Figure, Figure]
_Way = Callable[[aiohttp.ClientSession, Contender], Awaitable[list[tuple[float, float]]]]


async def _interleaved(
    client: aiohttp.ClientSession, contenders: list[Contender], rounds: int, way: _Way
) -> dict[str, _Pair]:
    """First byte and end, of every contender once per round; the first rounds do not count."""
    times: dict[str, list[tuple[float, float]]] = {each.name: [] for each in contenders}
    for number in range(rounds + 5):
        for each in contenders:
            found = await way(client, each)
            if number >= 5:
                times[each.name] += found
    return {
        name: (Figure(name, tuple(first for first, _ in found)), Figure(name, tuple(end for _, end in found)))
        for name, found in times.items()
    }


async def _alone(client: aiohttp.ClientSession, contender: Contender) -> list[tuple[float, float]]:
    return [await _call(client, contender)]


async def _together(client: aiohttp.ClientSession, contender: Contender) -> list[tuple[float, float]]:
    return list(await asyncio.gather(*(_call(client, contender) for _ in range(_STREAMS))))


async def _call(client: aiohttp.ClientSession, contender: Contender) -> tuple[float, float]:
    begin = time.perf_counter()
    async with client.post(contender.url, data=_BODY, headers=_HEADERS) as reply:
        if reply.status != 200:
            raise RuntimeError(f"{contender.name} answers {reply.status}")
        await reply.content.readany()
        first = time.perf_counter()
        await reply.content.read()
    return (first - begin) * 1000, (time.perf_counter() - begin) * 1000


async def _rate(client: aiohttp.ClientSession, contender: Contender) -> float:
    """Requests per second of computing: what one core does that has nothing else to do."""
    before = contender.cpu_seconds()
    left = iter(range(_CALLS))

    async def work() -> None:
        for _ in left:
            await _call(client, contender)

    await asyncio.gather(*(work() for _ in range(_STREAMS)))
    return _CALLS / (contender.cpu_seconds() - before)


async def _memory(contender: Contender) -> float:
    """What its process grows by with each stream that is open."""
    assert contender.pid is not None
    before = machine.resident(contender.pid)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:

        async def opened() -> aiohttp.ClientResponse:
            reply = await client.post(contender.url, data=_BODY, headers={**_HEADERS, "x-hold": "1"})
            await reply.content.readany()
            return reply

        replies = await asyncio.gather(*(opened() for _ in range(_HELD)))
        grown = (machine.resident(contender.pid) - before) / _HELD
        for reply in replies:
            reply.close()
    return grown


def _row(what: str, figures: dict[str, _Pair], which: int) -> tuple[str, ...]:
    direct, ours, theirs = (figures[name][which].p50 for name in ("direct", "gateway", "mitmproxy"))
    return (
        what,
        f"{direct:.1f} ms",
        f"{ours:.1f} ms (+{ours - direct:.1f})",
        f"{theirs:.1f} ms (+{theirs - direct:.1f})",
    )
