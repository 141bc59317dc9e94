"""What packages run with, as kits: so agents work in images with no Node or Python, or another one."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from benchyard.errors import InstallFailed, ScorerFailed
from benchyard.hosts import dependencies
from benchyard.hosts.kits import Kit, Kits
from benchyard.models.agents import SourceType
from benchyard.scorers.kits import programs, python_kit, pythons

_LAYOUT = 1
_OF_ADDONS = (
    *("libstdc++.so.6", "libgcc_s.so.1", "libatomic.so.1", "libz.so.1", "libresolv.so.2", "librt.so.1"),
    *("libdl.so.2", "libpthread.so.0", "libutil.so.1", "libnss_files.so.2", "libnss_dns.so.2"),
)
"""Libraries that compiled packages expect of every system, and that resolve names."""


@dataclass(frozen=True)
class Runtime:
    """What an agent's packages run with, and what they are installed with."""

    kits: tuple[Kit, ...] = ()
    """Shown wherever the agent is."""
    env: tuple[tuple[str, str], ...] = ()
    """For the commands that install it."""
    installers: tuple[Kit, ...] = ()
    """Shown only while it is installed."""


async def runtime_of(type: SourceType, kits: Kits) -> Runtime:
    """What a source of this type needs beside itself; raises InstallFailed with what to do."""
    try:
        if type == "npm":
            node = await _program("node", kits)
            return Runtime((node,), (("BY_NODE", f"{node.target}/bin/node"),))
        if type == "pip":
            return await _python(kits)
    except ScorerFailed as error:
        raise InstallFailed(f"agents from {type} cannot be installed here: {error.message}") from error
    return Runtime()


async def _python(kits: Kits) -> Runtime:
    python = await pythons.choose(None)
    base = await python_kit.make(python, kits)
    uv = await _program("uv", kits)
    env = {
        "BY_UV": f"{uv.target}/bin/uv",
        "BY_PYTHON": python_kit.program(base.target),
        "BY_HOME": f"{base.target}/bin",
        "BY_LIB": f"lib/{python.modules.name}/site-packages",
        "BY_VERSION": python.version,
    }
    return Runtime((base,), tuple(env.items()), (uv,))


async def _program(name: str, kits: Kits) -> Kit:
    program = await asyncio.to_thread(_found, name)
    key = f"{name} {_LAYOUT} {programs.digest(program)}"
    target = programs.target(key)

    async def fill(folder: Path) -> None:
        contents = programs.KitContents({f"bin/{name}": program}, libraries=_OF_ADDONS)
        await asyncio.to_thread(programs.write, folder, target, contents)

    return Kit(await kits.folder(key, fill), target)


def _found(name: str) -> Path:
    found = dependencies.find_program(name)
    if found is None:
        raise InstallFailed(f"the agent cannot be installed: {dependencies.BY_NAME[name].complaint}")
    return found
