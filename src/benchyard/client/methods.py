"""Turns an operation written once into a method that blocks on one client and is awaited on the other."""

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
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

F = TypeVar("F", bound=Callable[..., Any])


def signature_of(operation: Callable[..., Any]) -> inspect.Signature:
    """Return the parameters of an operation, each under its own name, without `self`."""
    whole = inspect.signature(operation)
    _, *parameters = whole.parameters.values()
    returned = whole.return_annotation
    result = get_args(returned)[-1] if get_origin(returned) is not None and get_args(returned) else returned
    named = [each for given in parameters for each in _named(given)]
    return inspect.Signature(named, return_annotation=result)


def copy_signature(method: F, operation: Callable[..., Any], signature: inspect.Signature) -> F:
    """Give a method the name, docstring and parameters of its operation."""
    method.__name__ = operation.__name__
    method.__qualname__ = operation.__qualname__
    method.__doc__ = operation.__doc__
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


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
Owner = TypeVar("Owner", bound="VerbGroup[Any]")


class VerbGroup(Generic[S]):
    """A group of operations on one noun, on one session."""

    def __init__(self, session: S) -> None:
        self.session = session


class call(Generic[Owner, P, T]):
    """Turn an operation into a method: its result on a sync client, a coroutine of it on an async one."""

    def __init__(self, steps: Callable[Concatenate[Owner, P], Steps[T]]) -> None:
        self.steps = steps
        self.__doc__ = steps.__doc__

    @cached_property
    def __signature__(self) -> inspect.Signature:
        return signature_of(self.steps)

    @overload
    def __get__(self, group: None, owner: type) -> Self: ...
    @overload
    def __get__(self, group: VerbGroup[SyncSession], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, group: VerbGroup[AsyncSession], owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, group: Any, owner: type) -> Any:
        if group is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            options = split_options(kwargs, self.__signature__.parameters)
            steps = self.steps(group, *args, **kwargs)
            return group.session.run(with_options(steps, options) if options else steps)

        return copy_signature(method, self.steps, self.__signature__)


class items(Generic[Owner, P, T]):
    """Turn a flow into a method: an iterator on a sync client, an async iterator on an async one."""

    def __init__(self, flow: Callable[Concatenate[Owner, P], Flow[T]]) -> None:
        self.flow = flow
        self.__doc__ = flow.__doc__

    @cached_property
    def __signature__(self) -> inspect.Signature:
        return signature_of(self.flow).replace(return_annotation=inspect.Signature.empty)

    @overload
    def __get__(self, group: None, owner: type) -> Self: ...
    @overload
    def __get__(self, group: VerbGroup[SyncSession], owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, group: VerbGroup[AsyncSession], owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, group: Any, owner: type) -> Any:
        if group is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return group.session.flow(self.flow(group, *args, **kwargs))

        return copy_signature(method, self.flow, self.__signature__)
