"""Services beside a devbox: separate devboxes that share the main devbox's network."""

import asyncio
import os
import re
import shlex
from dataclasses import dataclass, field, replace

from benchyard.devboxes.base import Capability, Network
from benchyard.engine.context import EngineContext
from benchyard.errors import DevboxGone, ImageError, NotFound, NotSupported, StillWaiting, UsageError
from benchyard.hosts.host import ExecRequest, ExecutionState, StartRequest
from benchyard.images.aliases import Aliases
from benchyard.images.image import Image, ImageIdentity
from benchyard.models.blueprints import Service
from benchyard.models.devboxes import Devbox

_SHORT = {"-e": "--env", "-u": "--user", "-w": "--workdir"}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0}
_MOST_SECONDS = 3600.0
_MOST_RETRIES = 1000


@dataclass(frozen=True)
class HealthCheck:
    """Command that checks whether a service is ready, and its timing."""

    command: str | None = None
    interval: float = 1.0
    timeout: float = 30.0
    retries: int = 60
    start_period: float = 0.0

    @property
    def patience(self) -> float:
        """Most seconds that a service may take to be ready."""
        return self.start_period + self.retries * self.interval


@dataclass(frozen=True)
class ServiceOptions:
    """Parsed options of a service."""

    health: HealthCheck = field(default_factory=HealthCheck)
    env: dict[str, str] = field(default_factory=dict)
    user: str | None = None
    workdir: str | None = None
    entrypoint: str | None = None


def parse_options(text: str, service: str) -> ServiceOptions:
    """Parse the options of a service; raises UsageError for an unsupported one."""
    options = ServiceOptions()
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


def _with(options: ServiceOptions, name: str, value: str, service: str) -> ServiceOptions:
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
        f"option {name[:100]} of service {service} is not supported; known are: --health-cmd, "
        "--health-interval, --health-timeout, --health-retries, --health-start-period, --env, --user, "
        "--workdir, --entrypoint",
        field="services",
    )


def _health(health: HealthCheck, name: str, value: str, service: str) -> HealthCheck:
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


_SIDE = re.compile(r"(?P<main>.+)-service-(?P<index>\d+)")
_LOOK_SECONDS = 0.1
_CHECK_SECONDS = 5.0
_TAIL_LINES = 10


@dataclass(frozen=True)
class _Side:
    """Service of a devbox that is coming up."""

    devbox: Devbox
    index: int
    request: StartRequest
    """Start request of the devbox itself: a service gets the same network and limits."""

    @property
    def service(self) -> Service:
        return self.devbox.services[self.index]

    @property
    def id(self) -> str:
        return f"{self.devbox.id}-service-{self.index}"

    @property
    def run_id(self) -> str:
        """Return the id of the execution of its program in this boot."""
        return f"service-{self.devbox.boot}"


def main_of(devbox_id: str) -> str | None:
    """Return the devbox beside which this service runs; None for a devbox that is no service."""
    found = _SIDE.fullmatch(devbox_id)
    return found["main"] if found else None


def require_services(tools: EngineContext) -> None:
    """Raise NotSupported if this driver cannot run services beside a devbox."""
    if not {Capability.SHARED_NETWORK, Capability.IMAGES} <= tools.host.capabilities:
        raise NotSupported("this server's driver cannot run services; use `native` or `container`")


async def start(tools: EngineContext, devbox: Devbox, request: StartRequest) -> str | None:
    """Start all services of a running devbox, one after another; returns why one failed, or None."""
    for index in range(len(devbox.services)):
        side = _Side(devbox, index, request)
        if failure := await _start_one(tools, side):
            return f"service {side.service.name}: {failure}"
        tools.note(devbox.id, "setup_commands", f"service {side.service.name} is ready")
    return None


async def stop(tools: EngineContext, devbox_id: str, *, keep_disk: bool) -> None:
    """End all services of a devbox, also if the devbox itself is unknown."""
    # Every running service has a disk here.
    held = tools.host.with_disk()
    for side in sorted(each for each in held if each.startswith(devbox_id) and main_of(each) == devbox_id):
        await tools.host.stop(side, keep_disk=keep_disk)


def note_end(tools: EngineContext, devbox_id: str, detail: str) -> None:
    """Write into the log of a service's devbox that the service has ended."""
    main = main_of(devbox_id)
    if main is not None:
        tools.note(main, "setup_commands", f"a service has ended: {detail}", level="error")


async def _start_one(tools: EngineContext, side: _Side) -> str | None:
    reference = side.service.image
    # A stand-in for the reference, else the image with that name, else one from its registry.
    named = Aliases(tools.settings.data / "images").find(reference) or reference
    try:
        try:
            image = await tools.images.get(named)
        except NotFound:
            # The output of the pull is ignored: an error has the relevant part.
            identity = ImageIdentity(reference.partition("@")[0])
            image = await tools.builder.pull(reference, identity, lambda _line: None)
    except ImageError as error:
        return (
            f"its image {reference!r} is not here and could not be pulled; import it, or let another stand "
            f"in for it with `benchyard image alias {reference} IMAGE`; {error.message}"
        )
    options = parse_options(side.service.options or "", side.service.name)
    command = _command(image, options)
    if command is None:
        return f"its image {reference!r} does not say what to run; give it an --entrypoint"
    await tools.host.start(
        StartRequest(
            id=side.id,
            image=image.id,
            network=side.request.network,
            limits=side.request.limits,
            user="root",
            env={**(side.service.env or {}), **options.env},
            network_of=side.devbox.id if side.request.network is Network.NONE else None,
        )
    )
    user = (options.user or image.user or "root").partition(":")[0]
    state = await tools.host.exec(side.id, ExecRequest(id=side.run_id, command=command, user=user))
    try:
        async with asyncio.timeout(options.health.patience):
            return await _await_ready(tools, side, state, options.health)
    except TimeoutError:
        return f"it was not ready after {options.health.patience:.0f} s{await _last_output(tools, state)}"


def _command(image: Image, options: ServiceOptions) -> str | None:
    words = (options.entrypoint,) if options.entrypoint else image.entrypoint
    if not words:
        return None
    path = image.env.get("PATH")
    # A login shell sets its own PATH, which may lack the image's programs.
    steps = [f"export PATH={shlex.quote(path)}"] if path else []
    steps.append(f"cd {shlex.quote(options.workdir or image.working_directory or '/')}")
    return " && ".join([*steps, f"exec {shlex.join(words)}"])


async def _await_ready(
    tools: EngineContext, side: _Side, state: ExecutionState, health: HealthCheck
) -> str | None:
    ports = [int(mapping.partition(":")[0]) for mapping in side.service.port_mappings or []]
    tries = 0
    while True:
        state = await tools.host.execution(side.id, state.id)
        if state.status == "completed":
            return f"it ended with {state.exit_status}{await _last_output(tools, state)}"
        if health.command is not None:
            is_ready = await _is_healthy(tools, side, health, tries)
        else:
            listening = [await _is_listening(tools, side, port) for port in ports]
            is_ready = all(listening)
        if is_ready:
            return None
        tries += 1
        await asyncio.sleep(health.interval if health.command is not None else _LOOK_SECONDS)


async def _is_healthy(tools: EngineContext, side: _Side, health: HealthCheck, tries: int) -> bool:
    request = ExecRequest(
        id=f"health-{side.devbox.boot}-{tries}", command=health.command or "", timeout_seconds=health.timeout
    )
    state = await tools.host.exec(side.id, request)
    while state.status != "completed":
        state = await tools.host.wait(side.id, state.id, health.timeout + _CHECK_SECONDS)
    return state.exit_status == 0


async def _is_listening(tools: EngineContext, side: _Side, port: int) -> bool:
    try:
        os.close(await tools.host.connect(side.devbox.id, port))
    except (NotFound, StillWaiting, DevboxGone):
        return False
    return True


async def _last_output(tools: EngineContext, state: ExecutionState) -> str:
    tails = [
        await tools.host.tail(state.devbox_id, state.id, name, _TAIL_LINES) for name in ("stdout", "stderr")
    ]
    text = "\n".join(part for part, _ in tails if part.strip()).strip()
    return f": {text[-1000:]}" if text else ""
