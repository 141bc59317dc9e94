"""What stands in for images of registries: which Debian, which Python, and what nothing can stand in for."""

import pytest

from benchyard.errors import UsageError
from benchyard.images.stand_ins import SUITES, StandInPlan, can_be_made, fitting_suite, stand_in_plan

BULLSEYE, BOOKWORM, TRIXIE = SUITES


@pytest.mark.parametrize(
    ("reference", "plan"),
    [
        ("python:3.13-slim-bookworm", StandInPlan("python:3.13-slim-bookworm", BOOKWORM, "3.13")),
        ("docker.io/library/python:3.11-slim", StandInPlan("python:3.11-slim", TRIXIE, "3.11")),
        ("python:3.9.18-bullseye", StandInPlan("python:3.9.18-bullseye", BULLSEYE, "3.9", is_slim=False)),
        ("python:3.12", StandInPlan("python:3.12", TRIXIE, "3.12", is_slim=False)),
        ("ubuntu:24.04", StandInPlan("ubuntu:24.04", BOOKWORM)),
        ("ubuntu:jammy", StandInPlan("ubuntu:jammy", BULLSEYE)),
        ("ubuntu:jammy-20240808", StandInPlan("ubuntu:jammy-20240808", BULLSEYE)),
        ("ubuntu", StandInPlan("ubuntu:latest", BOOKWORM)),
        ("debian:bullseye-slim", StandInPlan("debian:bullseye-slim", BULLSEYE)),
        ("debian:12", StandInPlan("debian:12", BOOKWORM)),
        ("debian:stable-slim", StandInPlan("debian:stable-slim", TRIXIE)),
    ],
)
def test_references_and_their_stand_ins(reference: str, plan: StandInPlan) -> None:
    assert stand_in_plan(reference) == plan
    assert can_be_made(reference)


@pytest.mark.parametrize(
    "reference",
    [
        "python:2.7",
        "python:latest",
        "python:3.12-alpine",
        "python:3.12-windowsservercore",
        "ubuntu:14.04",
        "debian:sid",
        "alpine",
        "registry.example/library/python:3.12",
        "somebody/ubuntu:24.04",
        "ubuntu@sha256:" + "0" * 64,
        "Not This",
    ],
)
def test_nothing_stands_in_for_others(reference: str) -> None:
    with pytest.raises(UsageError, match=r"benchyard image alias|not a reference"):
        stand_in_plan(reference)
    assert not can_be_made(reference)


def test_a_python_made_for_a_newer_system_gets_one() -> None:
    plan = stand_in_plan("python:3.9-slim-bullseye")
    assert fitting_suite(plan, (2, 31)) is BULLSEYE
    assert fitting_suite(plan, (2, 36)) is BOOKWORM
    assert fitting_suite(plan, (2, 39)) is TRIXIE
    assert fitting_suite(plan, (2, 99)) is TRIXIE
