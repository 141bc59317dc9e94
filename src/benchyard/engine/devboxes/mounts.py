"""Puts files, objects and repositories into a devbox before it runs; all unpacking happens inside it."""

import shlex

from benchyard.engine.background import retry_store
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.commands import run_step
from benchyard.engine.devboxes.descriptors import write_pieces
from benchyard.errors import UsageError
from benchyard.hosts.host import ExecRequest
from benchyard.models.devboxes import Devbox
from benchyard.models.launch import CodeMount, FileMount, Mount, ObjectMount

_EXPAND = 'case "$BY_PATH" in "~") BY_PATH=$HOME;; "~/"*) BY_PATH="$HOME/${BY_PATH#??}";; esac; '
_UNPACK = {
    "tar": _EXPAND + 'mkdir -p -- "$BY_PATH" && tar -xf "$BY_ARCHIVE" --no-same-owner -C "$BY_PATH"',
    "tgz": _EXPAND + 'mkdir -p -- "$BY_PATH" && tar -xzf "$BY_ARCHIVE" --no-same-owner -C "$BY_PATH"',
    "gzip": _EXPAND + 'mkdir -p -- "$(dirname -- "$BY_PATH")" && gzip -dc < "$BY_ARCHIVE" > "$BY_PATH"',
}
CREDENTIALS = "!f() { echo username=x-access-token; echo password=$BY_TOKEN; }; f"
"""Credential helper for git: name and password come from `BY_TOKEN`."""
_CLONE = (
    f"git -c credential.helper= -c credential.helper={shlex.quote(CREDENTIALS)} "
    'clone --quiet -- "$BY_URL" "$HOME/$BY_NAME"'
)
_CHECKOUT = ' && git -C "$HOME/$BY_NAME" checkout --quiet "$BY_REF" --'


async def put_mount(tools: EngineContext, devbox: Devbox, index: int, mount: Mount) -> str | None:
    """Put one mount into a devbox; returns why it failed, or None. Errors of the host pass through."""
    step = f"setup-{devbox.boot}-mount-{index}"
    if isinstance(mount, FileMount):
        descriptor = await _open(tools, devbox.id, mount.target)
        size = await write_pieces(descriptor, mount.target, iter([mount.content.encode()]))
        tools.note(devbox.id, "files", f"mounted {size} bytes at {mount.target}")
        return None
    if isinstance(mount, ObjectMount):
        return await put_object(tools, devbox, mount, step)
    if isinstance(mount, CodeMount):
        for request in code_requests(tools, mount, step):
            if failure := await run_step(tools, devbox.id, request):
                return failure
        return None
    raise UsageError(f"{mount.type} is not served yet")


async def _open(tools: EngineContext, devbox_id: str, path: str) -> int:
    try:
        return await tools.host.open_write(devbox_id, path)
    except UsageError:
        # Folders such as /etc belong to root, and the owner asked for this mount.
        return await tools.host.open_write(devbox_id, path, "root")


async def put_object(
    tools: EngineContext, devbox: Devbox, mount: ObjectMount, step: str, user: str | None = None
) -> str | None:
    """Put an object into a devbox, unpacked if it is an archive; returns why it failed, or None."""
    record, content = await retry_store(tools.objects.content, mount.object_id)
    unpack = _UNPACK.get(record.content_type)
    # Relative paths start at the user's home, and so do commands.
    path = f".benchyard-{step}" if unpack else mount.object_path
    opening = tools.host.open_write(devbox.id, path, user) if user else _open(tools, devbox.id, path)
    size = await write_pieces(await opening, path, content)
    tools.note(devbox.id, "files", f"mounted object {record.id} ({size} bytes) at {mount.object_path}")
    if not unpack:
        return None
    command = unpack + '; BY_STATUS=$?; rm -f -- "$BY_ARCHIVE"; exit $BY_STATUS'
    env = {"BY_PATH": mount.object_path, "BY_ARCHIVE": path}
    return await run_step(tools, devbox.id, ExecRequest(id=step, command=command, env=env, user=user))


def code_requests(tools: EngineContext, mount: CodeMount, step: str) -> list[ExecRequest]:
    """Return the commands that clone a repository and install its needs; their `BY_TOKEN` is a secret."""
    url = f"{tools.settings.git_url.rstrip('/')}/{mount.repo_owner}/{mount.repo_name}.git"
    env = {"BY_URL": url, "BY_NAME": mount.repo_name, "GIT_TERMINAL_PROMPT": "0"}
    if mount.token:
        env["BY_TOKEN"] = tools.vault.open(mount.token)
    command = _CLONE
    if mount.git_ref:
        env["BY_REF"] = mount.git_ref
        command += _CHECKOUT
    requests = [ExecRequest(id=step, command=command, env=env)]
    if mount.install_command:
        install = f"cd {shlex.quote(mount.repo_name)} && {{ {mount.install_command}\n}}"
        requests.append(ExecRequest(id=f"{step}-install", command=install))
    return requests
