"""A way to run an async test over a host of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.hosts.yard import HostYard

OnHost = Callable[..., None]


@pytest.fixture
def on_host(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> OnHost:
    """Runs a test with a yard; keywords are the driver's options, `name` chooses the driver."""

    def run(test: Callable[[HostYard], Awaitable[None]], name: str = "fake", **options: str) -> None:
        async def live() -> None:
            yard = HostYard(tmp_path, tmp_path_factory.getbasetemp() / f"images-{name}", options, name)
            await yard.open()
            try:
                await test(yard)
            finally:
                await yard.clear()

        asyncio.run(live())

    return run
