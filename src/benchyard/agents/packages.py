"""What public agents are made of: packages of a registry, by the machine they are for."""

import platform
from dataclasses import dataclass
from typing import Literal

from benchyard.errors import NotSupported

MODULES = "lib/node_modules"
"""Where npm puts packages in an agent's folder."""

_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
_RIPGREP_VERSION = "1.18.0"
_NODE_VERSION = "22.23.3"


@dataclass(frozen=True)
class Package:
    """What is fetched for one version of an agent."""

    type: Literal["npm", "pip"]
    name: str
    version: str
    more: tuple[str, ...] = ()
    """Other packages that it does not work without, as the registry's own tool takes them."""
    setup: tuple[str, ...] = ()
    """Commands that are run in the agent's folder afterwards."""
    programs: tuple[str, ...] = ()
    """Compiled programs in the agent's folder that would look for their loader in the image."""

    @property
    def spec(self) -> str:
        """The package as the registry's own tool takes it."""
        return f"{self.name}{'@' if self.type == 'npm' else '=='}{self.version}"


def machine() -> str:
    """What npm packages call this machine; raises NotSupported for one that none is made for."""
    found = platform.machine()
    if found.lower() not in _MACHINES:
        raise NotSupported(f"public agents are made for x86-64 and aarch64, and this machine is {found!r}")
    return _MACHINES[found.lower()]


def ripgrep() -> str:
    """The package that has ripgrep for this machine, which needs nothing of an image."""
    return f"@vscode/ripgrep-linux-{machine()}@{_RIPGREP_VERSION}"


def ripgrep_bin() -> str:
    """Where ripgrep lies in an agent's folder."""
    return f"{MODULES}/@vscode/ripgrep-linux-{machine()}/bin"


def node() -> str:
    """The package that has Node for this machine: the same for everybody, whatever the server has."""
    return f"node-linux-{machine()}@{_NODE_VERSION}"


def node_program() -> str:
    """Where that Node lies in an agent's folder."""
    return f"{MODULES}/node-linux-{machine()}/bin/node"
