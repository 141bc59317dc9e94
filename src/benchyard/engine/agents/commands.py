"""Commands of agents that are packages, where every shell of a devbox finds them."""

from benchyard.devboxes.base import Capability
from benchyard.engine.setup import run_step
from benchyard.engine.tools import Tools
from benchyard.hosts.host import ExecRequest, StartRequest
from benchyard.models.devboxes import Devbox

_SCRIPT = """\
mkdir -p /usr/local/bin && cd /usr/local/bin || exit
for folder in "$@"; do
    for path in "$folder"/bin/*; do
        name=${path##*/}
        case $name in
            *[!A-Za-z0-9._+-]* | -* | node | python* | pip* | activate* | deactivate*) continue ;;
        esac
        [ -f "$path" ] && [ -x "$path" ] || continue
        rm -f "$name" &&
            printf '#!/bin/sh\\nPATH=%s/bin:"$PATH" exec %s "$@"\\n' "$folder" "$path" > "$name" &&
            chmod 755 "$name" || exit
    done
done
"""
"""Not links: what a command runs with lies beside it, and comes before what the image has."""


async def put_into_path(tools: Tools, devbox: Devbox, request: StartRequest) -> str | None:
    """Make the commands of a devbox's agents known to its shells; returns why that failed, or None."""
    folders = [next(iter(agent.shown)) for agent in devbox.agents if agent.is_package]
    if not folders or devbox.boot:
        return None
    capabilities, _ = tools.host.report()
    step = ExecRequest(
        id=f"setup-{devbox.boot}-agents",
        argv=("/bin/sh", "-c", _SCRIPT, "sh", *folders),
        cwd="/",
        user="root" if Capability.USERS in capabilities else request.user,
    )
    failure = await run_step(tools, devbox.id, step)
    return failure and f"the commands of agents could not be put into PATH: {failure}"
