"""Types of the fields that scorers are configured with: bounded, because they come from outside."""

import posixpath
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from benchyard.scorers import context_texts

MOST_SCRIPT_BYTES = 1024**2
MOST_PARAMS_BYTES = 64 * 1024


def _script(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("empty", "must not be empty")
    if len(value.encode()) > MOST_SCRIPT_BYTES:
        raise PydanticCustomError("too_large", "must be at most 1 MiB")
    return value


def _path(value: str) -> str:
    if "\0" in value or not value:
        raise PydanticCustomError("bad_path", "must be a path: not empty, and without zero bytes")
    value.encode()
    if posixpath.normpath(value).split("/")[0] == "..":
        raise PydanticCustomError("bad_path", "must not lead out of the working directory by `..`")
    return value


def _file(value: str) -> str:
    if value.endswith("/") or posixpath.basename(value) in (".", ".."):
        raise PydanticCustomError("bad_path", "must be the path of a file")
    return value


def _argument(value: str) -> str:
    if "\0" in value or not value:
        raise PydanticCustomError("bad_argument", "must not be empty, and must not have zero bytes")
    value.encode()
    return value


def _params(value: dict[str, Any]) -> dict[str, Any]:
    if context_texts.FACTS in value:
        raise PydanticCustomError("taken", "must not have the key `benchyard`: facts of the run stand there")
    try:
        is_small = context_texts.is_at_most(value, MOST_PARAMS_BYTES)
    except (ValueError, RecursionError) as error:
        raise PydanticCustomError("not_json", "must be what JSON can say, and not nested deeply") from error
    if not is_small:
        raise PydanticCustomError("too_large", "must be at most 64 KiB of JSON")
    return value


Script = Annotated[str, AfterValidator(_script)]
"""A program or a command line."""

Place = Annotated[str, Field(max_length=4096), AfterValidator(_path)]
"""A path in the devbox, from its working directory unless it is absolute."""

FilePlace = Annotated[Place, AfterValidator(_file)]
"""The path of a file in the devbox."""

Argument = Annotated[str, Field(max_length=MOST_PARAMS_BYTES // 4), AfterValidator(_argument)]
"""Something that is passed to a program as an argument, of at most 64 KiB however it is encoded."""

Params = Annotated[dict[str, Any], AfterValidator(_params)]
"""JSON that is passed on to a script."""
