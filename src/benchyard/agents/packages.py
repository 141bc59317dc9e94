"""Packages that public agents consist of, by registry and machine."""

import platform
from dataclasses import dataclass
from typing import Literal

from benchyard.errors import NotSupported

MODULES = "lib/node_modules"
"""Folder for npm packages in an agent's folder."""

_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
_RIPGREP_VERSION = "1.18.0"
_NODE_VERSION = "22.23.3"


@dataclass(frozen=True)
class Package:
    """The packages and commands that install one version of an agent."""

    type: Literal["npm", "pip"]
    name: str
    version: str
    more: tuple[str, ...] = ()
    """Other required packages, in the form that the registry's own tool takes."""
    setup: tuple[str, ...] = ()
    """Commands that run in the agent's folder after the install."""
    programs: tuple[str, ...] = ()
    """Compiled programs in the agent's folder that would look for their loader in the image."""

    @property
    def spec(self) -> str:
        """Return the package in the form that the registry's own tool takes."""
        return f"{self.name}{'@' if self.type == 'npm' else '=='}{self.version}"


def machine() -> str:
    """Return npm's name for this machine; raises NotSupported if no package is made for it."""
    architecture = platform.machine()
    if architecture.lower() not in _MACHINES:
        raise NotSupported(
            f"public agents are made for x86-64 and aarch64, and this machine is {architecture!r}"
        )
    return _MACHINES[architecture.lower()]


def ripgrep() -> str:
    """Return the package with ripgrep for this machine, which needs nothing from an image."""
    return f"@vscode/ripgrep-linux-{machine()}@{_RIPGREP_VERSION}"


def ripgrep_bin() -> str:
    """Return the path of ripgrep in an agent's folder."""
    return f"{MODULES}/@vscode/ripgrep-linux-{machine()}/bin"


def node() -> str:
    """Return the package with Node for this machine: always the same, whatever Node the server has."""
    return f"node-linux-{machine()}@{_NODE_VERSION}"


def node_program() -> str:
    """Return the path of that Node in an agent's folder."""
    return f"{MODULES}/node-linux-{machine()}/bin/node"
