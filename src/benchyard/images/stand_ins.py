"""Choice of the Debian and the Python that stand in for a registry image often used in Dockerfiles.

A stand-in is not the same image: it is similar enough to build and run software made for the other, but
results may differ. So it is marked, and so are the images built on it.
"""

import re
from dataclasses import dataclass

from benchyard.errors import UsageError
from benchyard.images.references import normal_reference


@dataclass(frozen=True)
class DebianSuite:
    """A release of Debian."""

    name: str
    libc: tuple[int, int]
    python: str
    """The version of Python that it includes."""


SUITES = (
    DebianSuite("bullseye", (2, 31), "3.9"),
    DebianSuite("bookworm", (2, 36), "3.11"),
    DebianSuite("trixie", (2, 41), "3.13"),
)
"""Releases, oldest first."""

_NUMBERS = {"11": "bullseye", "12": "bookworm", "13": "trixie", "stable": "trixie", "latest": "trixie"}
_UBUNTU = {
    **dict.fromkeys(("20.04", "focal", "22.04", "jammy"), "bullseye"),
    **dict.fromkeys(("24.04", "noble", "latest"), "bookworm"),
    **dict.fromkeys(("25.04", "plucky", "25.10", "questing", "26.04"), "trixie"),
}
"""Release of Ubuntu -> the Debian with packages closest to it in age."""
_NEWEST = "trixie"
_LIBRARY = "docker.io/library/"
_PYTHON_TAG = re.compile(r"(3\.\d{1,2})(?:\.\d{1,3})?(-slim)?(?:-([a-z]+))?")
_DATE = re.compile(r"-\d{8}(?:\.\d+)?$")


@dataclass(frozen=True)
class StandInPlan:
    """The parts of a stand-in."""

    reference: str
    """The reference as people write it: python:3.13-slim-bookworm."""
    suite: DebianSuite
    python: str | None = None
    """The separate version in /usr/local; None if there is none."""
    is_slim: bool = True
    """True if it lacks compilers and similar packages."""


def stand_in_plan(reference: str) -> StandInPlan:
    """Return the plan for a stand-in of this reference; raises UsageError if there is none."""
    full = normal_reference(reference)
    name, _, tag = full.removeprefix(_LIBRARY).partition(":")
    tag = _DATE.sub("", tag)
    short = full.removeprefix(_LIBRARY)
    if full.startswith(_LIBRARY) and "@" not in full:
        suite_name = tag.removesuffix("-slim")
        if name == "debian" and (suite := _suite(_NUMBERS.get(suite_name, suite_name))):
            return StandInPlan(short, suite)
        if name == "ubuntu" and (suite := _suite(_UBUNTU.get(tag, ""))):
            return StandInPlan(short, suite)
        found = _PYTHON_TAG.fullmatch(tag) if name == "python" else None
        if found and (suite := _suite(found[3] or _NEWEST)):
            return StandInPlan(short, suite, found[1], bool(found[2]))
    raise UsageError(
        f"nothing can stand in for {short}: stand-ins are made for debian, ubuntu and python:3.N, by their "
        "tags. Import the image (`docker save`, then `benchyard image import FILE`), or let one of yours "
        f"stand in: `benchyard image alias {short} NAME`"
    )


def can_be_made(reference: str) -> bool:
    """Tell whether there can be a stand-in for this reference."""
    try:
        stand_in_plan(reference)
    except UsageError:
        return False
    return True


def fitting_suite(plan: StandInPlan, libc: tuple[int, int]) -> DebianSuite:
    """Return the suite of a plan, or the first after it that runs programs made with this C library."""
    later = SUITES[SUITES.index(plan.suite) :]
    return next((suite for suite in later if suite.libc >= libc), later[-1])


def _suite(name: str) -> DebianSuite | None:
    return next((suite for suite in SUITES if suite.name == name), None)
