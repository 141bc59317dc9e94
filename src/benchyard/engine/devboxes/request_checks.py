"""Checks of a create call: requests that cannot be served are refused before any work starts."""

import platform
import re
from collections.abc import Mapping

from benchyard.devboxes.base import Network
from benchyard.engine.devboxes.sizes import resources
from benchyard.errors import NotYet, UsageError
from benchyard.models.devboxes import DevboxRequest
from benchyard.models.launch import BrokerMount, CodeMount, FileMount, LaunchParameters, Mount

NETWORK_KEY = "benchyard.network"
NETWORKS = tuple(network.value for network in Network)
INSTEAD_OF_MCP = (
    "run the MCP server in the devbox, or reach one that speaks HTTP through a gateway config "
    "(`benchyard gateway-config create`)"
)
MOST_PATH = 4096
MAX_FILE_MOUNT_BYTES = 16 * 1024**2
MAX_TOKEN_CHARACTERS = 4096
MAX_VARIABLE_BYTES = 128 * 1024 - 1
"""Most bytes of a name, an equals sign and a value together: no program starts with a longer variable."""
MAX_VARIABLES_BYTES = 1024**2

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARCHITECTURES = {"amd64": "x86_64", "aarch64": "arm64"}


def check_request(request: DevboxRequest) -> None:
    """Refuse requests that cannot be served; raises UsageError, or NotYet naming the feature."""
    if request.mcp:
        raise NotYet(f"mcp is not served: {INSTEAD_OF_MCP}", feature="mcp")
    sources = [request.blueprint_id, request.blueprint_name, request.snapshot_id]
    if sum(source is not None for source in sources) > 1:
        raise UsageError("give at most one of blueprint_id, blueprint_name and snapshot_id")
    launch = request.launch_parameters or LaunchParameters()
    if request.blueprint_id is None and request.blueprint_name is None:
        # A blueprint may set the rest of a size; then both are checked together.
        resources(launch)
    check_launch(launch)
    check_variables(request.environment_variables or {})
    check_variables(request.secrets or {})
    texts = [request.entrypoint or "", *(launch.launch_commands or [])]
    if any("\0" in text for text in texts):
        raise UsageError("a command cannot hold a NUL character")
    network_from_metadata(request.metadata or {}, Network.NONE)


def all_mounts(request: DevboxRequest) -> list[Mount]:
    """Return all mounts of a request, also from the old fields; raises NotYet for unsupported kinds."""
    given = (request.file_mounts or {}).items()
    if any(not 0 < len(target) <= MOST_PATH for target, _ in given):
        raise UsageError(f"a file mount needs a path of 1 to {MOST_PATH} characters", field="file_mounts")
    files = [FileMount(target=target, content=text) for target, text in given]
    mounts: list[Mount] = [*files, *(request.mounts or []), *(request.code_mounts or [])]
    for mount in mounts:
        if isinstance(mount, BrokerMount):
            raise NotYet(f"{mount.type} is not served yet", feature=mount.type)
        paths = [getattr(mount, "target", ""), getattr(mount, "object_path", "")]
        if any("\0" in path for path in paths):
            raise UsageError("a path cannot hold a NUL character")
        if isinstance(mount, CodeMount):
            check_code(mount)
    size = sum(len(mount.content.encode()) for mount in mounts if isinstance(mount, FileMount))
    if size > MAX_FILE_MOUNT_BYTES:
        raise UsageError(
            f"file mounts hold {size} bytes, more than {MAX_FILE_MOUNT_BYTES}; mount an object instead"
        )
    return mounts


def network_from_metadata(metadata: Mapping[str, str], default: Network) -> Network:
    """Return the network that this metadata asks for; raises UsageError for an unknown one."""
    wanted = metadata.get(NETWORK_KEY, default.value)
    if wanted not in NETWORKS:
        raise UsageError(f"metadata {NETWORK_KEY} must be one of {', '.join(NETWORKS)}")
    return Network(wanted)


def host_architecture() -> str:
    """Return this machine's architecture by its name in the API."""
    machine = platform.machine().lower()
    return _ARCHITECTURES.get(machine, machine)


def check_launch(launch: LaunchParameters) -> None:
    """Refuse launch parameters that this machine cannot serve, or that contradict each other."""
    if launch.architecture and launch.architecture != host_architecture():
        raise UsageError(f"this server runs {host_architecture()} devboxes, not {launch.architecture}")
    nested = launch.lifecycle.after_idle if launch.lifecycle else None
    if nested and launch.after_idle and nested != launch.after_idle:
        raise UsageError("after_idle and lifecycle.after_idle differ; give lifecycle.after_idle only")
    user = launch.user_parameters
    if user and (user.username == "root") != (user.uid == 0):
        raise UsageError("user_parameters: root and uid 0 belong together")


def check_code(mount: CodeMount) -> None:
    """Refuse a repository whose token or install command cannot be passed on."""
    if len(mount.token or "") > MAX_TOKEN_CHARACTERS:
        raise UsageError(f"a token may have {MAX_TOKEN_CHARACTERS} characters", field="token")
    if "\0" in (mount.token or "") + (mount.install_command or ""):
        raise UsageError("a token or an install command cannot hold a NUL character")


def check_variables(variables: Mapping[str, str]) -> None:
    """Refuse variables that no program could have in its environment."""
    for name, value in variables.items():
        if not _VARIABLE.fullmatch(name):
            raise UsageError(f"not a name of an environment variable: {name[:100]!r}")
        if "\0" in value:
            raise UsageError(f"environment variable {name[:100]} holds a NUL character")
    sizes = {name: len(name) + 1 + len(value.encode()) for name, value in variables.items()}
    for name, size in sizes.items():
        if size > MAX_VARIABLE_BYTES:
            raise UsageError(
                f"environment variable {name[:100]} is over {MAX_VARIABLE_BYTES} bytes; mount a file"
            )
    if sum(sizes.values()) > MAX_VARIABLES_BYTES:
        raise UsageError(f"environment variables are over {MAX_VARIABLES_BYTES} bytes together; mount a file")
