"""Runtimes that packages need, as kits, and the registries that packages come from."""

import asyncio
import configparser
import os
import shutil
import subprocess
from collections.abc import Mapping
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
"""Libraries that compiled packages expect on every system, and those that resolve names."""


@dataclass(frozen=True)
class Runtime:
    """Kits that an agent's packages run with, and those they are installed with."""

    kits: tuple[Kit, ...] = ()
    """Shown in every devbox with the agent."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables of the commands that install it."""
    installers: tuple[Kit, ...] = ()
    """Shown only during the install."""


async def runtime_of(type: SourceType, kits: Kits) -> Runtime:
    """Return the runtime for a source of this type; raises InstallFailed with advice."""
    try:
        if type == "npm":
            node = await _program_runtime("node", kits)
            return Runtime((node,), (("BY_NODE", f"{node.target}/bin/node"),))
        if type == "pip":
            return await _python_runtime(kits)
    except ScorerFailed as error:
        raise InstallFailed(f"agents from {type} cannot be installed here: {error.message}") from error
    return Runtime()


async def _python_runtime(kits: Kits) -> Runtime:
    python = await pythons.choose(None)
    base = await python_kit.make(python, kits)
    uv = await _program_runtime("uv", kits)
    env = {
        "BY_UV": f"{uv.target}/bin/uv",
        "BY_PYTHON": python_kit.program(base.target),
        "BY_HOME": f"{base.target}/bin",
        "BY_LIB": f"lib/{python.modules.name}/site-packages",
        "BY_VERSION": python.version,
    }
    return Runtime((base,), tuple(env.items()), (uv,))


async def _program_runtime(name: str, kits: Kits) -> Kit:
    program = await asyncio.to_thread(dependencies.find_program, name)
    if program is None:
        raise InstallFailed(f"the agent cannot be installed: {dependencies.BY_NAME[name].complaint}")
    key = f"{name} {_LAYOUT} {programs.digest(program)}"
    target = programs.target(key)

    async def fill(folder: Path) -> None:
        contents = programs.KitContents({f"bin/{name}": program}, libraries=_OF_ADDONS)
        await asyncio.to_thread(programs.write, folder, target, contents)

    return Kit(await kits.folder(key, fill), target)


_SECONDS = 60
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_CERTIFICATES = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "REQUESTS_CA_BUNDLE",
)
_IN_VIEW = ("/etc/ssl/", "/etc/pki/", "/usr/")
"""Folders of certificates that the default image has too."""
_INDEXES = {
    "UV_DEFAULT_INDEX": ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"),
    "UV_INDEX": ("UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"),
}
"""Variable in the devbox -> variables of this machine that may set it, first found first."""


async def registry_variables(machine: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables with which npm, pip and uv in a devbox find the registries of this machine."""
    variables = {name: machine[name] for low in _PROXIES for name in (low, low.upper()) if machine.get(name)}
    variables |= {name: machine[name] for name in _CERTIFICATES if machine.get(name, "").startswith(_IN_VIEW)}
    variables |= await asyncio.to_thread(_python_variables, machine)
    if registry := await asyncio.to_thread(_npm_registry, machine):
        variables["npm_config_registry"] = registry
    return variables


def _python_variables(machine: Mapping[str, str]) -> dict[str, str]:
    configured = _pip_settings(machine)
    variables = {}
    for name, sources in _INDEXES.items():
        given = next((machine[source] for source in sources if machine.get(source)), "")
        addresses = [each for each in (given or configured.get(name, "")).split() if _is_address(each)]
        if addresses:
            variables[name] = " ".join(addresses)
    if default := variables.get("UV_DEFAULT_INDEX"):
        variables["PIP_INDEX_URL"] = default
    if more := variables.get("UV_INDEX"):
        variables["PIP_EXTRA_INDEX_URL"] = more
    return variables


def _pip_settings(machine: Mapping[str, str]) -> dict[str, str]:
    """Return the indexes from pip's own files, later files over earlier ones."""
    home = Path(machine.get("HOME") or "/")
    own = Path(machine.get("XDG_CONFIG_HOME") or home / ".config") / "pip/pip.conf"
    files = [Path("/etc/pip.conf"), home / ".pip/pip.conf", own, Path(machine.get("PIP_CONFIG_FILE") or own)]
    parser = configparser.RawConfigParser()
    try:
        parser.read(files)
    except (configparser.Error, UnicodeDecodeError):
        # pip itself would report this error; here the default index will do.
        return {}
    names = {"UV_DEFAULT_INDEX": "index-url", "UV_INDEX": "extra-index-url"}
    return {name: parser.get("global", option, fallback="") for name, option in names.items()}


def _npm_registry(machine: Mapping[str, str]) -> str:
    """Return the registry that npm uses on this machine."""
    npm = shutil.which("npm")
    if npm is None:
        return ""
    command = [npm, "config", "get", "registry"]
    try:
        ended = subprocess.run(
            command,
            cwd="/",
            env=dict(machine),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = ended.stdout.strip()
    return found if ended.returncode == 0 and _is_address(found) else ""


def _is_address(text: str) -> bool:
    return text.startswith(("http://", "https://")) and text.isprintable()
