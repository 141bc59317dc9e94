"""The images a Dockerfile starts from or copies from, distinguished from its own stages."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from benchyard.images.dockerfile.parser import (
    Dockerfile,
    Instruction,
    expand_variables,
    instruction_error,
    split_words,
)

SCRATCH = "scratch"
_FROM = re.compile(r"(?:^|,)from=([^,]+)")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


class Bases:
    """References in a Dockerfile, found once and replaceable by other names."""

    def __init__(self, dockerfile: Dockerfile, args: Mapping[str, str]) -> None:
        self._dockerfile = dockerfile
        self._values = {**_platform(), **dockerfile.global_values(args)}
        self._stages: list[str] = []
        self._uses = dict(self._base_references())

    def references(self) -> dict[str, Instruction]:
        """Return every image from elsewhere, variables filled in, with the first instruction naming it."""
        found: dict[str, Instruction] = {}
        for instruction, references in self._uses.items():
            for reference in references:
                found.setdefault(reference, instruction)
        return found

    def renamed(self, names: Mapping[str, str]) -> Dockerfile:
        """Return the same Dockerfile with other names for those images."""
        instructions = [self._renamed(instruction, names) for instruction in self._dockerfile.instructions]
        return replace(self._dockerfile, instructions=tuple(instructions))

    def _base_references(self) -> Iterator[tuple[Instruction, tuple[str, ...]]]:
        for instruction in self._dockerfile.instructions:
            try:
                references = tuple(self._in(instruction))
            except ValueError as error:
                raise instruction_error(instruction, str(error)) from error
            yield instruction, tuple(reference for reference in references if not self._is_own(reference))
            if instruction.name == "FROM":
                self._stages.append(self._stage_name(instruction))

    def _in(self, instruction: Instruction) -> Iterator[str]:
        if instruction.name == "FROM":
            reference = expand_variables(_words(instruction)[0], self._values, escape=self._dockerfile.escape)
            if not reference:
                raise ValueError("FROM names no image: a variable in it is not set before the first FROM")
            yield reference
        elif instruction.name in ("COPY", "ADD") and (reference := instruction.flag("from") or ""):
            yield reference
        elif instruction.name == "RUN":
            for flag in instruction.flags:
                if flag.startswith("--mount=") and (match := _FROM.search(flag.removeprefix("--mount="))):
                    yield match[1]

    def _is_own(self, reference: str) -> bool:
        """Tell whether a reference is an earlier stage, by name or number, or `scratch`."""
        return reference.lower() in self._stages or reference.isdigit() or reference == SCRATCH

    def _stage_name(self, instruction: Instruction) -> str:
        words = _words(instruction)
        if len(words) not in (1, 3) or (len(words) == 3 and words[1].upper() != "AS"):
            raise instruction_error(instruction, "FROM is written `FROM image` or `FROM image AS name`")
        return words[2].lower() if len(words) == 3 else ""

    def _renamed(self, instruction: Instruction, names: Mapping[str, str]) -> Instruction:
        for reference in self._uses[instruction]:
            new = names.get(reference)
            if new is None:
                continue
            if instruction.name == "FROM":
                return replace(instruction, rest=" ".join((new, *_words(instruction)[1:])))
            flags = tuple(_with_from(flag, reference, new) for flag in instruction.flags)
            instruction = replace(instruction, flags=flags)
        return instruction


def _words(instruction: Instruction) -> list[str]:
    return split_words(instruction.rest)


def _with_from(flag: str, reference: str, new: str) -> str:
    if flag == f"--from={reference}":
        return f"--from={new}"
    if flag.startswith("--mount="):
        return re.sub(rf"((?:=|,)from=){re.escape(reference)}(?=,|$)", lambda found: found[1] + new, flag)
    return flag


def _platform() -> Mapping[str, str]:
    """Return the variables that every FROM may use without an ARG."""
    machine = os.uname().machine
    architecture = _ARCHITECTURES.get(machine, machine)
    values = {"OS": "linux", "ARCH": architecture, "PLATFORM": f"linux/{architecture}", "VARIANT": ""}
    return {f"{side}{name}": value for side in ("TARGET", "BUILD") for name, value in values.items()}
