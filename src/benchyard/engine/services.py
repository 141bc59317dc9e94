"""What runs beside a devbox: each service is a devbox of its own that shares the other one's network.

It has no record: its id tells whose it is, it comes up with that devbox and ends with it.
"""

import asyncio
import os
import re
import shlex
from dataclasses import dataclass

from benchyard.devboxes.base import Capability, Network
from benchyard.engine import service_options
from benchyard.engine.tools import Tools
from benchyard.errors import DevboxGone, ImageError, NotFound, NotSupported, StillWaiting
from benchyard.hosts.host import ExecRequest, ExecutionState, StartRequest
from benchyard.images.aliases import Aliases
from benchyard.images.image import Image, Label
from benchyard.models.blueprints import Service
from benchyard.models.devboxes import Devbox

_SIDE = re.compile(r"(?P<main>.+)-service-(?P<index>\d+)")
_LOOK_SECONDS = 0.1
_CHECK_SECONDS = 5.0
_TAIL_LINES = 10


@dataclass(frozen=True)
class _Side:
    """One service of a devbox, on its way up."""

    devbox: Devbox
    index: int
    request: StartRequest
    """That of the devbox itself: a service gets the same network and limits."""

    @property
    def service(self) -> Service:
        return self.devbox.services[self.index]

    @property
    def id(self) -> str:
        return f"{self.devbox.id}-service-{self.index}"

    @property
    def run_id(self) -> str:
        """The execution of its program, in this boot."""
        return f"service-{self.devbox.boot}"


def main_of(devbox_id: str) -> str | None:
    """The devbox beside which this one runs; None for one that stands for itself."""
    found = _SIDE.fullmatch(devbox_id)
    return found["main"] if found else None


def require_services(tools: Tools) -> None:
    """Raise NotSupported where nothing can run beside a devbox."""
    capabilities, _ = tools.host.report()
    if not {Capability.SHARED_NETWORK, Capability.IMAGES} <= capabilities:
        raise NotSupported("this server's driver cannot run services; use `native` or `container`")


async def start(tools: Tools, devbox: Devbox, request: StartRequest) -> str | None:
    """Bring up all services of a devbox that runs, one after another; returns why one failed, or None."""
    for index in range(len(devbox.services)):
        side = _Side(devbox, index, request)
        if failure := await _start_one(tools, side):
            return f"service {side.service.name}: {failure}"
        tools.note(devbox.id, "setup_commands", f"service {side.service.name} is ready")
    return None


async def stop(tools: Tools, devbox_id: str, *, keep_disk: bool) -> None:
    """End all services of a devbox, whether it is known or not."""
    # One that runs has its disk here.
    held = tools.host.with_disk()
    for side in sorted(each for each in held if each.startswith(devbox_id) and main_of(each) == devbox_id):
        await tools.host.stop(side, keep_disk=keep_disk)


def note_end(tools: Tools, devbox_id: str, detail: str) -> None:
    """Write into the log of the devbox beside which it ran that a service has ended."""
    main = main_of(devbox_id)
    if main is not None:
        tools.note(main, "setup_commands", f"a service has ended: {detail}", level="error")


async def _start_one(tools: Tools, side: _Side) -> str | None:
    try:
        image = await _image(tools, side.service.image)
    except ImageError as error:
        return (
            f"its image {side.service.image!r} is not here and could not be pulled; import it, or let "
            f"another stand in for it with `benchyard image alias {side.service.image} IMAGE`; "
            f"{error.message}"
        )
    options = service_options.parsed(side.service.options or "", side.service.name)
    command = _command(image, options)
    if command is None:
        return f"its image {side.service.image!r} says nothing about what to run; give it an --entrypoint"
    await tools.host.start(_request(side, image, options))
    user = (options.user or image.user or "root").partition(":")[0]
    state = await tools.host.exec(side.id, ExecRequest(id=side.run_id, command=command, user=user))
    try:
        async with asyncio.timeout(options.health.patience):
            return await _await_ready(tools, side, state, options.health)
    except TimeoutError:
        return f"it was not ready after {options.health.patience:.0f} s{await _said(tools, state)}"


async def _image(tools: Tools, reference: str) -> Image:
    """The image that stands in for a reference, the one of that name, or that of its registry."""
    named = Aliases(tools.settings.data / "images").find(reference) or reference
    try:
        return await tools.images.get(named)
    except NotFound:
        return await tools.builder.pull(reference, Label(reference.partition("@")[0]), _silent)


def _silent(_line: str) -> None:
    """What an engine says while it pulls is of use only when it fails, and then it is in the error."""


def _request(side: _Side, image: Image, options: service_options.Options) -> StartRequest:
    return StartRequest(
        id=side.id,
        image=image.id,
        network=side.request.network,
        limits=side.request.limits,
        user="root",
        env={**(side.service.env or {}), **options.env},
        network_of=side.devbox.id if side.request.network is Network.NONE else None,
    )


def _command(image: Image, options: service_options.Options) -> str | None:
    words = (options.entrypoint,) if options.entrypoint else image.entrypoint
    if not words:
        return None
    path = image.env.get("PATH")
    # A login shell sets a path of its own, which need not have the program of an image in it.
    steps = [f"export PATH={shlex.quote(path)}"] if path else []
    steps.append(f"cd {shlex.quote(options.workdir or image.working_directory or '/')}")
    return " && ".join([*steps, f"exec {shlex.join(words)}"])


async def _await_ready(
    tools: Tools, side: _Side, state: ExecutionState, health: service_options.Health
) -> str | None:
    ports = [int(mapping.partition(":")[0]) for mapping in side.service.port_mappings or []]
    tries = 0
    while True:
        state = await tools.host.execution(side.id, state.id)
        if state.status == "completed":
            return f"it ended with {state.exit_status}{await _said(tools, state)}"
        if health.command is not None:
            is_ready = await _is_healthy(tools, side, health, tries)
        else:
            listening = [await _is_listening(tools, side, port) for port in ports]
            is_ready = all(listening)
        if is_ready:
            return None
        tries += 1
        await asyncio.sleep(health.interval if health.command is not None else _LOOK_SECONDS)


async def _is_healthy(tools: Tools, side: _Side, health: service_options.Health, tries: int) -> bool:
    request = ExecRequest(
        id=f"health-{side.devbox.boot}-{tries}", command=health.command or "", timeout_seconds=health.timeout
    )
    state = await tools.host.exec(side.id, request)
    while state.status != "completed":
        state = await tools.host.wait(side.id, state.id, health.timeout + _CHECK_SECONDS)
    return state.exit_status == 0


async def _is_listening(tools: Tools, side: _Side, port: int) -> bool:
    try:
        os.close(await tools.host.connect(side.devbox.id, port))
    except (NotFound, StillWaiting, DevboxGone):
        return False
    return True


async def _said(tools: Tools, state: ExecutionState) -> str:
    tails = [
        await tools.host.tail(state.devbox_id, state.id, name, _TAIL_LINES) for name in ("stdout", "stderr")
    ]
    text = "\n".join(part for part, _ in tails if part.strip()).strip()
    return f": {text[-1000:]}" if text else ""
