"""A Dockerfile read and rewritten apart from the server: what workers do with it, and what they return.

Its author is anybody, and may make reading it take long, or take all memory.
"""

import marshal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from benchyard.errors import BuildFailed, WorkerFailed
from benchyard.images.dockerfile.bases import Bases
from benchyard.images.dockerfile.heredocs import HeredocRewriter, RewriteRequest
from benchyard.images.dockerfile.parser import Dockerfile, Instruction, parse_dockerfile, without_frontend

_MOST_REFERENCES = 200
_READ = f"{__name__}:read"
_REWRITE = f"{__name__}:rewrite"


class ApartCall(Protocol):
    """Runs a function `module:name` over a content where it can hold nobody up, and returns its bytes."""

    async def __call__(self, function: str, content: bytes) -> bytes:
        """Return the result; raises WorkerFailed if the function takes too long or too much memory."""


@dataclass(frozen=True)
class EngineDialect:
    """The form in which an engine takes Dockerfiles and their bases."""

    names: Mapping[str, str]
    """The engine's name of each base, by the reference of the Dockerfile."""
    environments: Mapping[str, Mapping[str, str]]
    """The environment of each base, by the engine's name."""
    files: Path
    """An empty folder, which receives the texts that here-documents copy."""
    files_name: str
    """The engine's name for that folder."""
    knows_heredocs: bool


@dataclass(frozen=True)
class RewrittenDockerfile:
    """A Dockerfile as an engine takes it."""

    dockerfile: Dockerfile
    """The instructions, which name bases as the engine does; without lines and here-documents."""
    changes: Mapping[Instruction, Sequence[str]]
    """The new lines of instructions that the engine would not understand."""
    text: str


async def references(text: str, args: Mapping[str, str], call: ApartCall) -> dict[str, Instruction]:
    """Return every image from elsewhere with the first instruction naming it; raises BuildFailed."""
    told = await _told(call, _READ, {"text": text, "args": dict(args)})
    return {reference: _instruction(row) for reference, row in told["references"].items()}


async def rewritten(
    text: str, args: Mapping[str, str], secrets: Sequence[str], dialect: EngineDialect, call: ApartCall
) -> RewrittenDockerfile:
    """Return a Dockerfile in an engine's dialect, and write its here-documents; raises BuildFailed."""
    given = {
        "text": text,
        "args": dict(args),
        "secrets": list(secrets),
        "names": dict(dialect.names),
        "environments": {name: dict(env) for name, env in dialect.environments.items()},
        "files": str(dialect.files),
        "files_name": dialect.files_name,
        "knows_heredocs": dialect.knows_heredocs,
    }
    told = await _told(call, _REWRITE, given)
    instructions = tuple(map(_instruction, told["instructions"]))
    changes = {instructions[at]: lines for at, lines in told["changes"].items()}
    return RewrittenDockerfile(Dockerfile((), instructions), changes, told["text"])


async def _told(call: ApartCall, function: str, given: dict[str, Any]) -> dict[str, Any]:
    try:
        made = await call(function, marshal.dumps(given))
    except WorkerFailed as error:
        raise BuildFailed(f"the Dockerfile cannot be read ({error.message}): make it simpler") from error
    # The data come from a worker, one of our own processes; no other party can write this form.
    told: dict[str, Any] = marshal.loads(made)  # noqa: S302
    if "failed" in told:
        raise BuildFailed(told["failed"], **told["details"])
    return told


def read(content: BinaryIO) -> bytes:
    """Find the bases of a Dockerfile; run by a worker."""
    return _answer(content, _found)


def rewrite(content: BinaryIO) -> bytes:
    """Rewrite a Dockerfile for an engine; run by a worker."""
    return _answer(content, _made)


def _answer(content: BinaryIO, work: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    given = marshal.loads(content.read())  # noqa: S302  (made by the server itself)
    try:
        return marshal.dumps(work(given))
    except BuildFailed as error:
        return marshal.dumps({"failed": error.message, "details": dict(error.details)})
    except ValueError as error:
        return marshal.dumps({"failed": f"the Dockerfile cannot be read: {error}", "details": {}})


def _found(given: dict[str, Any]) -> dict[str, Any]:
    found = Bases(parse_dockerfile(given["text"]), given["args"]).references()
    if len(found) > _MOST_REFERENCES:
        raise BuildFailed(f"the Dockerfile names more than {_MOST_REFERENCES} images: use fewer")
    return {"references": {reference: _row(instruction) for reference, instruction in found.items()}}


def _made(given: dict[str, Any]) -> dict[str, Any]:
    dockerfile = Bases(parse_dockerfile(given["text"]), given["args"]).renamed(given["names"])
    secrets = tuple(sorted(given["secrets"]))
    request = RewriteRequest(Path(given["files"]), given["args"], secrets, given["files_name"])
    rewriter = HeredocRewriter(dockerfile, request)
    changes: dict[Instruction, list[str]] = {
        instruction: [instruction.text]
        for instruction in dockerfile.instructions
        if _is_renamed(instruction, list(given["names"].values()))
    }
    if secrets or not given["knows_heredocs"]:
        changes |= rewriter.run(given["environments"])
    return {
        "instructions": list(map(_row, dockerfile.instructions)),
        "changes": {
            at: list(changes[instruction])
            for at, instruction in enumerate(dockerfile.instructions)
            if instruction in changes
        },
        "text": without_frontend(dockerfile.replaced(changes)),
    }


def _is_renamed(instruction: Instruction, names: Sequence[str]) -> bool:
    text = instruction.text
    return not instruction.heredocs and any(name in text for name in names)


def _row(instruction: Instruction) -> tuple[Any, ...]:
    """Return an instruction without its here-documents, which nobody needs any more."""
    return instruction.first, instruction.last, instruction.name, instruction.flags, instruction.rest


def _instruction(row: tuple[Any, ...]) -> Instruction:
    return Instruction(*row)
