"""Signatures that `help()` and editors show of methods that are made of operations."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, Unpack, get_args, get_origin, get_type_hints

F = TypeVar("F", bound=Callable[..., Any])


def signature_of(operation: Callable[..., Any]) -> inspect.Signature:
    """The parameters of an operation, each by its own name, without the object it belongs to."""
    whole = inspect.signature(operation)
    _, *parameters = whole.parameters.values()
    returned = whole.return_annotation
    result = get_args(returned)[-1] if get_origin(returned) is not None and get_args(returned) else returned
    named = [each for given in parameters for each in _named(given)]
    return inspect.Signature(named, return_annotation=result)


def described(method: F, operation: Callable[..., Any], signature: inspect.Signature) -> F:
    """The method with the name, the text and the parameters of its operation."""
    method.__name__ = operation.__name__
    method.__qualname__ = operation.__qualname__
    method.__doc__ = operation.__doc__
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


def _named(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """Itself; or the fields of a `**fields: Unpack[Fields]`."""
    fields = get_args(parameter.annotation)
    if parameter.kind is not parameter.VAR_KEYWORD or get_origin(parameter.annotation) is not Unpack:
        yield parameter
        return
    kind = fields[0]
    for name, annotation in get_type_hints(kind).items():
        default = inspect.Parameter.empty if name in kind.__required_keys__ else None
        yield inspect.Parameter(name, parameter.KEYWORD_ONLY, default=default, annotation=annotation)
