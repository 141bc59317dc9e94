"""The options of services: what is understood, and what is refused by name."""

import pytest

from benchyard.engine.devboxes.services import HealthCheck, parse_options
from benchyard.errors import UsageError


def test_usual_database_options_are_parsed() -> None:
    options = parse_options(
        '--health-cmd "pg_isready -U me" --health-interval 10s --health-timeout=5s --health-retries 5 '
        "--health-start-period 1m -e A=b=c --env=D=e -u 70 -w /srv --entrypoint /run.sh",
        "db",
    )
    assert options.health == HealthCheck("pg_isready -U me", 10, 5, 5, 60)
    assert options.health.patience == 110
    assert options.env == {"A": "b=c", "D": "e"}
    assert (options.user, options.workdir, options.entrypoint) == ("70", "/srv", "/run.sh")


def test_without_options_there_is_no_health_command() -> None:
    assert parse_options("", "db").health.command is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("--privileged", "lacks its value"),
        ("--privileged true", "--privileged"),
        ("-v /:/host", "-v"),
        ("--health-interval soon", "soon"),
        ("--health-interval 9999h", "9999h"),
        ("--health-retries 0", "--health-retries"),
        ("--health-what 1s", "--health-what"),
        ('--env "A', "cannot be read"),
    ],
)
def test_unsupported_options_are_refused_by_name(text: str, told: str) -> None:
    with pytest.raises(UsageError, match="db") as caught:
        parse_options(text, "db")
    assert told in caught.value.message
