"""Methods that work with files of this machine: written once, blocking, for both clients."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from benchyard.client.methods import Descriptor, OneFrame, VerbGroup
from benchyard.client.operations import Server
from benchyard.client.sessions import AsyncSession, SyncSession

P = ParamSpec("P")
T = TypeVar("T")
Owner = TypeVar("Owner", bound=VerbGroup[Any])
Work = Callable[[AsyncSession], Coroutine[Any, Any, T]]
"""Work that remains when all files are read."""


class local(Descriptor, Generic[Owner, P, T]):
    """Turn a function that works with files of this machine, and blocks, into a method.

    On an async client it runs in a thread, with separate connections.
    """

    def __init__(self, definition: Callable[Concatenate[Owner, P], T]) -> None:
        super().__init__(definition)

    @overload
    def __get__(self, group: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, group: VerbGroup[SyncSession], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, group: VerbGroup[AsyncSession], owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, group: Any, owner: type) -> Any:
        if group is None:
            return self.unbound

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            def work(twin: Any) -> T:
                found: T = self.definition(twin, *args, **kwargs)
                return found

            if isinstance(group.session, AsyncSession):
                return _in_thread(group, work)
            with OneFrame():
                return work(group)

        return self.named(method)


class concurrent(Descriptor, Generic[Owner, P, T]):
    """Turn a function that prepares work with files of this machine into a method that carries it out.

    The function blocks, and returns a coroutine function of the session by which the work is done.
    """

    def __init__(self, definition: Callable[Concatenate[Owner, P], Work[T]]) -> None:
        super().__init__(definition)

    @overload
    def __get__(self, group: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, group: VerbGroup[SyncSession], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, group: VerbGroup[AsyncSession], owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, group: Any, owner: type) -> Any:
        if group is None:
            return self.unbound

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            def prepare(twin: Any) -> Work[T]:
                work: Work[T] = self.definition(twin, *args, **kwargs)
                return work

            if isinstance(group.session, AsyncSession):
                return _prepare_and_await(group, prepare)
            with OneFrame():
                return _run_to_end(group.session.server, prepare(group))

        return self.named(method)


async def _in_thread(group: VerbGroup[AsyncSession], work: Callable[[Any], T]) -> T:
    """Let a group of the same kind, which blocks, do work in a thread."""

    def carry_out() -> T:
        with closing(SyncSession(group.session.server)) as session:
            return work(type(group)(session))  # type: ignore[arg-type]

    with OneFrame():
        return await asyncio.to_thread(carry_out)


async def _prepare_and_await(group: VerbGroup[AsyncSession], prepare: Callable[[Any], Work[T]]) -> T:
    work = await _in_thread(group, prepare)
    with OneFrame():
        return await work(group.session)


def _run_to_end(server: Server, work: Work[T]) -> T:
    async def carry_out() -> T:
        session = AsyncSession(server)
        try:
            return await work(session)
        finally:
            await session.close()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(carry_out())
    # A notebook: the loop of this thread runs already, and cannot run this.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, carry_out()).result()
