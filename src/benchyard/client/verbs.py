"""Turns an operation written once into a method that blocks on one client and is awaited on the other."""

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import cached_property
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from benchyard.client import request_options
from benchyard.client.core import Flow, Steps
from benchyard.client.sessions import AsyncSession, Session, SyncSession
from benchyard.client.signatures import described, signature_of

S = TypeVar("S", bound=Session)
P = ParamSpec("P")
T = TypeVar("T")
Owner = TypeVar("Owner", bound="Group[Any]")


class Group(Generic[S]):
    """A group of operations on one noun, on one session."""

    def __init__(self, session: S) -> None:
        self.session = session


class call(Generic[Owner, P, T]):
    """Make a method of an operation: its result on a sync client, a coroutine of it on an async one."""

    def __init__(self, steps: Callable[Concatenate[Owner, P], Steps[T]]) -> None:
        self.steps = steps
        self.__doc__ = steps.__doc__

    @cached_property
    def __signature__(self) -> inspect.Signature:
        return signature_of(self.steps)

    @overload
    def __get__(self, group: None, owner: type) -> Self: ...
    @overload
    def __get__(self, group: Group[SyncSession], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, group: Group[AsyncSession], owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, group: Any, owner: type) -> Any:
        if group is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            options = request_options.taken(kwargs, self.__signature__.parameters)
            steps = self.steps(group, *args, **kwargs)
            return group.session.run(request_options.applied(steps, options) if options else steps)

        return described(method, self.steps, self.__signature__)


class items(Generic[Owner, P, T]):
    """Make a method of a flow: an iterator on a sync client, an async iterator on an async one."""

    def __init__(self, flow: Callable[Concatenate[Owner, P], Flow[T]]) -> None:
        self.flow = flow
        self.__doc__ = flow.__doc__

    @cached_property
    def __signature__(self) -> inspect.Signature:
        return signature_of(self.flow).replace(return_annotation=inspect.Signature.empty)

    @overload
    def __get__(self, group: None, owner: type) -> Self: ...
    @overload
    def __get__(self, group: Group[SyncSession], owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, group: Group[AsyncSession], owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, group: Any, owner: type) -> Any:
        if group is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return group.session.flow(self.flow(group, *args, **kwargs))

        return described(method, self.flow, self.__signature__)
