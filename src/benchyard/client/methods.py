"""Turns an operation written once into a method that blocks on one client and is awaited on the other.

The method's `steps` is the operation itself, for use in other operations.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import replace
from functools import cached_property, partial
from types import TracebackType
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import httpx
from pydantic import BaseModel

from benchyard.client.operations import Flow, Open, Request, Send, Steps
from benchyard.client.sessions import AsyncSession, Session, SyncSession
from benchyard.errors import BenchyardError

F = TypeVar("F", bound=Callable[..., Any])


def signature_of(operation: Callable[..., Any]) -> inspect.Signature:
    """Return the parameters of an operation, each under its own name, without `self`, and its result."""
    whole = inspect.signature(operation)
    _, *parameters = whole.parameters.values()
    named = [each for given in parameters for each in _named(given)]
    return inspect.Signature(named, return_annotation=_result_of(whole.return_annotation))


def _result_of(annotation: Any) -> Any:
    """Return the result type of `Steps[T]` or of a function that returns a coroutine: `T`."""
    while get_origin(annotation) in (Callable, Coroutine, Generator):
        annotation = get_args(annotation)[-1]
    return annotation


def _named(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """Yield the parameter itself, or the fields of a `**fields: Unpack[Fields]`."""
    fields = get_args(parameter.annotation)
    if parameter.kind is not parameter.VAR_KEYWORD or get_origin(parameter.annotation) is not Unpack:
        yield parameter
        return
    kind = fields[0]
    for name, annotation in get_type_hints(kind).items():
        default = inspect.Parameter.empty if name in kind.__required_keys__ else None
        yield inspect.Parameter(name, parameter.KEYWORD_ONLY, default=default, annotation=annotation)


T = TypeVar("T")
OPTION_NAMES = ("extra_headers", "extra_query", "extra_body", "idempotency_key", "timeout", "polling_config")


def split_options(given: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the request options, which are not parameters of the operation itself, from the arguments.

    A `polling_config` says how long an operation that waits may wait.
    """
    options = {name: given.pop(name) for name in OPTION_NAMES if name in given and name not in own}
    polling = options.pop("polling_config", None)
    if polling is not None and "timeout" in own and given.get("timeout") is None:
        given["timeout"] = _of(polling, "timeout_seconds")
    if "timeout" in given:
        given["timeout"] = _seconds(given["timeout"])
    return {name: value for name, value in options.items() if value is not None}


def with_options(steps: Steps[T], options: Mapping[str, Any]) -> Steps[T]:
    """Run the same operation with these options on its requests."""
    keyed: str | None = None
    result: Any = None
    error: httpx.TransportError | None = None
    while True:
        try:
            action = steps.send(result) if error is None else steps.throw(error)
        except StopIteration as done:
            value: T = done.value
            return value
        if isinstance(action, Send | Open) and not action.request.is_signed:
            request = _with(action.request, options)
            # An idempotency key stands for one request: later requests of the same operation have keys of
            # their own.
            if request.method != "GET" and keyed in (None, request.path) and "idempotency_key" in options:
                keyed = request.path
                request = replace(request, id=str(options["idempotency_key"]))
            action = replace(action, request=request)
        try:
            result, error = (yield action), None
        except httpx.TransportError as caught:
            result, error = None, caught


def _with(request: Request, options: Mapping[str, Any]) -> Request:
    seconds = _seconds(options.get("timeout"))
    body = request.json
    if extra := options.get("extra_body"):
        if isinstance(body, BaseModel):
            body = body.model_dump(mode="json", exclude_none=True, by_alias=True)
        body = {**(body or {}), **extra}
    return replace(
        request,
        query={**request.query, **(options.get("extra_query") or {})},
        headers={**request.headers, **(options.get("extra_headers") or {})},
        json=body,
        timeout=request.timeout if seconds is None or request.long_poll else seconds,
    )


def _seconds(given: Any) -> float | None:
    """Return a time limit in seconds, given as a number or as the read timeout of `httpx.Timeout`."""
    if isinstance(given, httpx.Timeout):
        return given.read
    return float(given) if isinstance(given, int | float) else None


def _of(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)


S = TypeVar("S", bound=Session)
P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)
Owner = TypeVar("Owner", bound="VerbGroup[Any]")
Owner_contra = TypeVar("Owner_contra", bound="VerbGroup[Any]", contravariant=True)


class VerbGroup(Generic[S]):
    """A group of operations on one noun, on one session."""

    def __init__(self, session: S) -> None:
        self.session = session

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.session.server.url}>"


class NounObject(VerbGroup[S]):
    """Object that stands for one thing on a server, by its id."""

    def __init__(self, session: S, id: str) -> None:
        super().__init__(session)
        self.id = id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"


class Verb(Protocol[P, T_co]):
    """A verb of a group; other operations contain its `steps`."""

    __name__: str

    def steps(self, *args: P.args, **kwargs: P.kwargs) -> Steps[T_co]:
        """Return the operation, to be carried out by the operation that yields from it."""
        ...


class SyncVerb(Verb[P, T_co], Protocol[P, T_co]):
    """A verb on a client that blocks."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...


class AsyncVerb(Verb[P, T_co], Protocol[P, T_co]):
    """A verb on a client that is awaited."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T_co]: ...


class UnboundVerb(Protocol[Owner_contra, P, T_co]):
    """A verb as the attribute of its class."""

    group: type[VerbGroup[Any]]
    signature: inspect.Signature

    def steps(self, group: Owner_contra, /, *args: P.args, **kwargs: P.kwargs) -> Steps[T_co]:
        """Return the operation of a group."""
        ...


class OneFrame:
    """Shows an error of Benchyard where the caller's code made it: without the frames of the client."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, BenchyardError):
            # The message has the cause, which also stays the `__context__`.
            error.__traceback__ = error.__cause__ = None


class Descriptor:
    """Base of the descriptors that make a method of a definition: with its name, docstring and parameters."""

    name = ""
    group: type[VerbGroup[Any]]

    def __init__(self, definition: Callable[..., Any]) -> None:
        self.definition = definition
        self.__doc__ = definition.__doc__

    def __set_name__(self, owner: type[VerbGroup[Any]], name: str) -> None:
        if not self.name:
            self.name, self.group = name, owner

    @cached_property
    def __signature__(self) -> inspect.Signature:
        return signature_of(self.definition)

    def named(self, method: F) -> F:
        """Give a method the name, the docstring and the parameters of the definition."""
        method.__name__ = self.name
        method.__qualname__ = f"{self.group.__name__}.{self.name}"
        method.__doc__ = self.__doc__
        method.__signature__ = self.__signature__  # type: ignore[attr-defined]
        return method

    @cached_property
    def unbound(self) -> Callable[..., Any]:
        """The method as an attribute of its class."""

        def method(group: VerbGroup[Any], /, *args: Any, **kwargs: Any) -> Any:
            return getattr(group, self.name)(*args, **kwargs)

        named = self.named(method)
        parameters = [*self.__signature__.parameters.values()]
        is_bare = bool(parameters) and parameters[0].kind is inspect.Parameter.POSITIONAL_ONLY
        kind = inspect.Parameter.POSITIONAL_ONLY if is_bare else inspect.Parameter.POSITIONAL_OR_KEYWORD
        itself = inspect.Parameter("self", kind)
        vars(named).update(
            __signature__=self.__signature__.replace(parameters=[itself, *parameters]),
            group=self.group,
            signature=self.__signature__,
            steps=self.definition,
        )
        return named


class call(Descriptor, Generic[Owner, P, T]):
    """Turn an operation into a method: its result on a sync client, a coroutine of it on an async one."""

    def __init__(self, definition: Callable[Concatenate[Owner, P], Steps[T]]) -> None:
        super().__init__(definition)

    @overload
    def __get__(self, group: None, owner: type) -> UnboundVerb[Owner, P, T]: ...
    @overload
    def __get__(self, group: VerbGroup[SyncSession], owner: type) -> SyncVerb[P, T]: ...
    @overload
    def __get__(self, group: VerbGroup[AsyncSession], owner: type) -> AsyncVerb[P, T]: ...
    @overload
    def __get__(self, group: VerbGroup[S], owner: type) -> Verb[P, T]: ...
    def __get__(self, group: Any, owner: type) -> Any:
        if group is None:
            return self.unbound
        operation = partial(self.definition, group)

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            options = split_options(kwargs, self.__signature__.parameters)
            steps = operation(*args, **kwargs)
            if options:
                steps = with_options(steps, options)
            if isinstance(group.session, AsyncSession):
                return _await(group.session, steps)
            with OneFrame():
                return group.session.run(steps)

        vars(method)["steps"] = operation
        return self.named(method)


async def _await(session: AsyncSession, steps: Steps[T]) -> T:
    with OneFrame():
        return await session.run(steps)


class bound(call[Any, P, T]):
    """Turn a verb of a group into one of an object: the object's id becomes the verb's first parameter."""

    def __init__(self, verb: UnboundVerb[Any, Concatenate[str, P], T]) -> None:
        def definition(one: Any, /, *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
            return verb.steps(verb.group(one.session), one.id, *args, **kwargs)

        definition.__doc__ = verb.__doc__
        super().__init__(definition)
        _, *parameters = verb.signature.parameters.values()
        self.__signature__ = verb.signature.replace(parameters=parameters)


class items(Descriptor, Generic[Owner, P, T]):
    """Turn a flow into a method: an iterator on a sync client, an async iterator on an async one."""

    def __init__(self, definition: Callable[Concatenate[Owner, P], Flow[T]]) -> None:
        super().__init__(definition)

    @cached_property
    def __signature__(self) -> inspect.Signature:
        return signature_of(self.definition).replace(return_annotation=inspect.Signature.empty)

    @overload
    def __get__(self, group: None, owner: type) -> Callable[Concatenate[Owner, P], Any]: ...
    @overload
    def __get__(self, group: VerbGroup[SyncSession], owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, group: VerbGroup[AsyncSession], owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, group: Any, owner: type) -> Any:
        if group is None:
            return self.unbound

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            flow = self.definition(group, *args, **kwargs)
            iterate = _iterate_async if isinstance(group.session, AsyncSession) else _iterate
            return iterate(group.session, flow)

        return self.named(method)


def _iterate(session: SyncSession, flow: Flow[T]) -> Iterator[T]:
    with OneFrame(), closing(session.flow(flow)) as found:
        yield from found


async def _iterate_async(session: AsyncSession, flow: Flow[T]) -> AsyncIterator[T]:
    with OneFrame():
        async with aclosing(session.flow(flow)) as found:
            async for each in found:
                yield each
