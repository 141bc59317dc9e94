"""The scripted model in a separate thread, for tests and programs that do not await."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from benchyard.errors import ServerUnreachable
from benchyard.scripted_model.ledger import Ledger
from benchyard.scripted_model.scripts import Scripts
from benchyard.scripted_model.server import ScriptedModel


@dataclass(frozen=True)
class _Running:
    """The parts of a running model that other threads use."""

    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event


class RunningModel:
    """A `ScriptedModel` as a blocking context manager, with the same arguments."""

    def __init__(self, scripts: Scripts = (), **options: Any) -> None:
        self._model = ScriptedModel(scripts, **options)
        self._thread: threading.Thread | None = None
        self._running: _Running | None = None

    @property
    def url(self) -> str:
        """Return the address on which it listens."""
        return self._model.url

    @property
    def ledger(self) -> Ledger:
        """Return the record of its requests."""
        return self._model.ledger

    def reset(self) -> None:
        """Forget all requests and progress."""
        done: Future[None] = Future()

        def forget() -> None:
            self._model.reset()
            done.set_result(None)

        self._call(forget)
        done.result()

    def __enter__(self) -> Self:
        started: Future[_Running] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)), name="scripted-model", daemon=True
        )
        self._thread.start()
        self._running = started.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is not None and self._thread is not None:
            self._call(self._running.stop.set)
            self._thread.join()
        self._running = None

    def _call(self, what: Callable[[], None]) -> None:
        if self._running is None:
            raise ServerUnreachable("the scripted model is not running; enter it first")
        self._running.loop.call_soon_threadsafe(what)

    async def _serve(self, started: "Future[_Running]") -> None:
        running = _Running(asyncio.get_running_loop(), asyncio.Event())
        try:
            await self._model.__aenter__()
        except OSError as error:
            started.set_exception(error)
            return
        try:
            started.set_result(running)
            await running.stop.wait()
        finally:
            await self._model.close()
