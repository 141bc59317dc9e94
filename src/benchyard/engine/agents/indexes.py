"""Where packages come from: what this machine is set up with, told to the devbox that installs.

Only addresses are told: what opens a registry to this machine would be anybody's who publishes a package.
"""

import asyncio
import configparser
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

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
"""Where certificates lie that the default image has too."""
_INDEXES = {
    "UV_DEFAULT_INDEX": ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"),
    "UV_INDEX": ("UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"),
}
"""What is told -> where it is looked for, first found first."""


async def environment(machine: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables with which npm, pip and uv in a devbox find the registries of this machine."""
    told = {name: machine[name] for low in _PROXIES for name in (low, low.upper()) if machine.get(name)}
    told |= {name: machine[name] for name in _CERTIFICATES if machine.get(name, "").startswith(_IN_VIEW)}
    told |= await asyncio.to_thread(_python, machine)
    if registry := await asyncio.to_thread(_npm, machine):
        told["npm_config_registry"] = registry
    return told


def _python(machine: Mapping[str, str]) -> dict[str, str]:
    configured = _pip_settings(machine)
    told = {}
    for name, sources in _INDEXES.items():
        given = next((machine[each] for each in sources if machine.get(each)), "")
        addresses = [each for each in (given or configured.get(name, "")).split() if _is_address(each)]
        if addresses:
            told[name] = " ".join(addresses)
    if default := told.get("UV_DEFAULT_INDEX"):
        told["PIP_INDEX_URL"] = default
    if more := told.get("UV_INDEX"):
        told["PIP_EXTRA_INDEX_URL"] = more
    return told


def _pip_settings(machine: Mapping[str, str]) -> dict[str, str]:
    """The indexes in pip's own files, later ones over earlier ones."""
    home = Path(machine.get("HOME") or "/")
    own = Path(machine.get("XDG_CONFIG_HOME") or home / ".config") / "pip/pip.conf"
    files = [Path("/etc/pip.conf"), home / ".pip/pip.conf", own, Path(machine.get("PIP_CONFIG_FILE") or own)]
    parser = configparser.RawConfigParser()
    try:
        parser.read(files)
    except (configparser.Error, UnicodeDecodeError):
        # pip itself would say so; here the default index is as good.
        return {}
    names = {"UV_DEFAULT_INDEX": "index-url", "UV_INDEX": "extra-index-url"}
    return {name: parser.get("global", option, fallback="") for name, option in names.items()}


def _npm(machine: Mapping[str, str]) -> str:
    """What npm takes for its registry on this machine, wherever that is set."""
    npm = shutil.which("npm")
    if npm is None:
        return ""
    command = [npm, "config", "get", "registry"]
    try:
        told = subprocess.run(
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
    found = told.stdout.strip()
    return found if told.returncode == 0 and _is_address(found) else ""


def _is_address(text: str) -> bool:
    return text.startswith(("http://", "https://")) and text.isprintable()
