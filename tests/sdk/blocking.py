"""The asynchronous client behind the synchronous one's face, so that each test is written once."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 120.0
_PACKAGES = ("runloop_api_client", "benchyard.client")
_WRAPPING = ("benchyard.client.methods", "benchyard.client.listings", "benchyard.client.local_methods")
"""Modules whose functions return what is awaited, without being coroutine functions themselves."""


class Loop:
    """An event loop in a thread, and a way to wait for what runs in it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, once it is there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_SECONDS)

    def close(self) -> None:
        """End the thread; what still runs in it is cancelled."""
        self.wait(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._loop.close()


@contextmanager
def running_loop() -> Iterator[Loop]:
    """A loop for as long as it is needed."""
    loop = Loop()
    try:
        yield loop
    finally:
        loop.close()


class Blocking:
    """An object of the asynchronous client: calls wait, and what they return is wrapped in turn."""

    def __init__(self, target: Any, loop: Loop) -> None:
        self._target = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return self._wrapped(getattr(self._target, name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._loop_result(partial(self._target, *args, **kwargs))

    def __getitem__(self, index: Any) -> Any:
        return self._wrapped(self._target[index])

    def __len__(self) -> int:
        return len(self._target)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return repr(self._target)

    def __iter__(self) -> Iterator[Any]:
        iterator = aiter(self._target)
        while True:
            try:
                yield self._wrapped(self._loop.wait(_next(iterator)))
            except StopAsyncIteration:
                return

    def __enter__(self) -> Any:
        return self._loop_result(self._target.__aenter__)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop_result(partial(self._target.__aexit__, kind, error, trace))

    def _loop_result(self, call: Callable[[], Any]) -> Any:
        return self._wrapped(self._loop.wait(_result(call)))

    def _wrapped(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._wrapped(each) for each in value]
        return Blocking(value, self._loop) if _is_asynchronous(value) else value


async def _result(call: Callable[[], Any]) -> Any:
    value = call()
    return await value if inspect.isawaitable(value) else value


async def _next(iterator: Any) -> Any:
    return await anext(iterator)


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _is_asynchronous(value: Any) -> bool:
    if inspect.ismethod(value):
        value = value.__self__
    if inspect.isfunction(value):
        return inspect.iscoroutinefunction(value) or value.__module__ in _WRAPPING
    if inspect.isasyncgen(value):
        return True
    is_theirs = type(value).__module__.startswith(_PACKAGES)
    is_data = hasattr(value, "model_dump") and not hasattr(value, "__aiter__")
    return is_theirs and not is_data
