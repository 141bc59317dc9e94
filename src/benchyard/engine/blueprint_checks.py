"""From a create call to a blueprint record: what can be refused is refused before anything is built."""

from benchyard.engine import service_options
from benchyard.engine.launch import check_code, check_launch, check_variables
from benchyard.engine.sizes import resources
from benchyard.errors import UsageError
from benchyard.models.blueprints import BlueprintRequest, Service
from benchyard.models.launch import LaunchParameters

MAX_FILE_BYTES = 98_250
MAX_FILES_BYTES = 7_860_000
MAX_COMMAND_CHARACTERS = 128 * 1024
_MAX_PATH = 4096
_HIGHEST_PORT = 65_535


def check_blueprint(request: BlueprintRequest) -> None:
    """Refuse what cannot be built, whatever there is on this server; raises UsageError, or NotYet."""
    if request.base_blueprint_id is not None and request.base_blueprint_name is not None:
        raise UsageError("give at most one of base_blueprint_id and base_blueprint_name")
    _check_texts(request)
    _check_files(request.file_mounts or {})
    for mount in request.code_mounts or []:
        check_code(mount)
    check_variables(request.secrets or {})
    check_variables(request.build_args or {})
    for service in request.services or []:
        _check_service(service)
    _check_launch(request)


def _check_texts(request: BlueprintRequest) -> None:
    commands = request.system_setup_commands or []
    if any("\0" in text for text in [request.dockerfile or "", *commands]):
        raise UsageError("neither a command nor a Dockerfile can hold a NUL character")
    for number, command in enumerate(commands, start=1):
        if not command.strip():
            raise UsageError(
                f"system_setup_commands: command {number} is empty", field="system_setup_commands"
            )
        if len(command) > MAX_COMMAND_CHARACTERS:
            raise UsageError(
                f"system_setup_commands: command {number} has over {MAX_COMMAND_CHARACTERS} characters; "
                "mount a script and run that",
                field="system_setup_commands",
            )


def _check_files(files: dict[str, str]) -> None:
    total = 0
    for path, text in files.items():
        if not path or len(path) > _MAX_PATH or "\0" in path:
            raise UsageError(f"file_mounts: not a path: {path[:200]!r}", field="file_mounts")
        size = len(text.encode(errors="surrogatepass"))
        total += size
        if size > MAX_FILE_BYTES:
            raise UsageError(
                f"file_mounts: {path[:200]} has {size} bytes, over {MAX_FILE_BYTES}; "
                "send it in a build context, or fetch it in a setup command",
                field="file_mounts",
            )
    if total > MAX_FILES_BYTES:
        raise UsageError(
            f"file_mounts have {total} bytes together, over {MAX_FILES_BYTES}; send a build context instead",
            field="file_mounts",
        )


def _check_service(service: Service) -> None:
    check_variables(service.env or {})
    if any("\0" in text for text in (service.image, service.options or "")):
        raise UsageError(f"service {service.name} holds a NUL character", field="services")
    for mapping in service.port_mappings or []:
        if not all(0 < int(port) <= _HIGHEST_PORT for port in mapping.split(":")):
            raise UsageError(f"service {service.name}: not two ports: {mapping}", field="services")
        outside, _, inside = mapping.partition(":")
        if int(outside) != int(inside):
            raise UsageError(
                f"service {service.name}: it shares the devbox's network, so a port is the same on "
                f"both sides, not {mapping}",
                field="services",
            )
    service_options.parsed(service.options or "", service.name)


def _check_launch(request: BlueprintRequest) -> None:
    launch = request.launch_parameters or LaunchParameters()
    resources(launch)
    check_launch(launch)
    names = [service.name for service in request.services or []]
    if len(set(names)) < len(names):
        raise UsageError("two services have the same name", field="services")
    for name in launch.required_services or []:
        if name not in names:
            raise UsageError(
                f"required_services names {name[:100]!r}, which is not one of the blueprint's services",
                field="launch_parameters.required_services",
            )
