"""The options of a service: those of `docker create` that mean something for a program beside a devbox."""

import re
import shlex
from dataclasses import dataclass, field, replace

from benchyard.errors import UsageError

_SHORT = {"-e": "--env", "-u": "--user", "-w": "--workdir"}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0}
_MOST_SECONDS = 3600.0
_MOST_RETRIES = 1000


@dataclass(frozen=True)
class Health:
    """How to tell that a service is ready."""

    command: str | None = None
    interval: float = 1.0
    timeout: float = 30.0
    retries: int = 60
    start_period: float = 0.0

    @property
    def patience(self) -> float:
        """How long a service may take to be ready."""
        return self.start_period + self.retries * self.interval


@dataclass(frozen=True)
class Options:
    """What a service's options ask for."""

    health: Health = field(default_factory=Health)
    env: dict[str, str] = field(default_factory=dict)
    user: str | None = None
    workdir: str | None = None
    entrypoint: str | None = None


def parsed(text: str, service: str) -> Options:
    """Read the options of a service; raises UsageError for one that means nothing here."""
    options = Options()
    for name, value in _pairs(text, service):
        options = _with(options, name, value, service)
    return options


def _pairs(text: str, service: str) -> list[tuple[str, str]]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"the options of service {service} cannot be read: {error}") from error
    pairs = []
    while words:
        word, equals, value = words.pop(0).partition("=")
        if not equals:
            if not words:
                raise UsageError(f"option {word[:100]} of service {service} lacks its value")
            value = words.pop(0)
        pairs.append((_SHORT.get(word, word), value))
    return pairs


def _with(options: Options, name: str, value: str, service: str) -> Options:
    if name.startswith("--health-"):
        return replace(options, health=_health(options.health, name, value, service))
    if name == "--env":
        variable, _, content = value.partition("=")
        return replace(options, env={**options.env, variable: content})
    if name == "--user":
        return replace(options, user=value)
    if name == "--workdir":
        return replace(options, workdir=value)
    if name == "--entrypoint":
        return replace(options, entrypoint=value)
    raise UsageError(
        f"option {name[:100]} of service {service} means nothing here; there are: --health-cmd, "
        "--health-interval, --health-timeout, --health-retries, --health-start-period, --env, --user, "
        "--workdir, --entrypoint",
        field="services",
    )


def _health(health: Health, name: str, value: str, service: str) -> Health:
    if name == "--health-cmd":
        return replace(health, command=value)
    if name == "--health-retries" and value.isdecimal() and 0 < int(value) <= _MOST_RETRIES:
        return replace(health, retries=int(value))
    seconds = _seconds(value)
    if seconds is not None:
        if name == "--health-interval":
            return replace(health, interval=seconds)
        if name == "--health-timeout":
            return replace(health, timeout=seconds)
        if name == "--health-start-period":
            return replace(health, start_period=seconds)
    raise UsageError(f"service {service}: {name[:100]} cannot be {value[:100]!r}", field="services")


def _seconds(text: str) -> float | None:
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    seconds = float(found[1]) * _SECONDS[found[2]]
    return seconds if seconds <= _MOST_SECONDS else None
