"""Installs an agent in a separate devbox, since packages run arbitrary code, and keeps it as a folder.

The folder has the same path in that devbox as in those that show it later, so that absolute paths in its
files stay valid. It is packed there and unpacked here as files, folders and links, with rights only to read
and execute. Files that an install leaves elsewhere in its devbox are lost with it.
"""

import asyncio
import mmap
import os
import posixpath
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchyard.agents.own_agent import InstalledAgent
from benchyard.agents.packages import Package
from benchyard.devboxes import elf
from benchyard.devboxes.base import Capability, DevboxLimits, HostFolder, Network, Stdin
from benchyard.devboxes.local_trees import unpack_plain
from benchyard.engine.agents import public, runtimes
from benchyard.engine.agents.runtimes import Runtime, runtime_of
from benchyard.engine.clock import now_ms
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.commands import wait_for_completion
from benchyard.engine.devboxes.descriptors import write_all
from benchyard.engine.devboxes.mounts import CREDENTIALS, put_mount
from benchyard.engine.devboxes.start_image import DEFAULT_IMAGE
from benchyard.engine.images.build import erase_devbox
from benchyard.errors import BenchyardError, ImageError, InstallFailed
from benchyard.hosts import executions
from benchyard.hosts.cancellation import run_to_end
from benchyard.hosts.host import ExecRequest, ExecutionState, StartRequest
from benchyard.hosts.kits import Kit, KitFolders
from benchyard.models.agents import AgentSource, GitSource, RegisteredAgent
from benchyard.models.devboxes import Devbox
from benchyard.models.launch import DEFAULT_USER, ObjectMount
from benchyard.scorers.kits import programs

TOKEN_VARIABLE = "BY_TOKEN"  # noqa: S105  (a variable's name)

_NPM = """\
command -v npm >/dev/null || {
    echo "the server's default image has no npm: install Node.js with npm on the server" >&2
    exit 127
}
npm install --global --prefix "$PWD" --cache "$(mktemp -d)" --no-fund --no-audit --no-update-notifier \
    --no-progress --loglevel error -- "$BY_SPEC" ${BY_MORE:-} &&
mkdir -p bin && ln -sfn -- "$BY_NODE" bin/node
"""
_PIP = """\
mkdir -p -- bin "$BY_LIB" &&
printf 'home = %s\\ninclude-system-site-packages = false\\nversion = %s\\n' "$BY_HOME" "$BY_VERSION" \
    > pyvenv.cfg &&
ln -sfn -- "$BY_PYTHON" bin/python3 && ln -sfn python3 bin/python &&
UV_CACHE_DIR=$(mktemp -d) "$BY_UV" pip install --python "$PWD/bin/python3" --link-mode copy --no-progress \
    --color never --no-python-downloads --compile-bytecode -- "$BY_SPEC" ${BY_MORE:-}
"""
_GIT = (
    f"git -c credential.helper= -c credential.helper={shlex.quote(CREDENTIALS)} "
    'clone --quiet --recurse-submodules -- "$BY_URL" .'
)
_CHECKOUT = 'git checkout --quiet "$BY_REF" -- && git submodule --quiet update --init --recursive'
_CHECKOUT_IF_THERE = """\
for BY_REF in "$BY_WANTED" "v$BY_WANTED"; do
    git checkout --quiet "$BY_REF" -- 2>/dev/null && exec git submodule --quiet update --init --recursive
done
true
"""

_UNKNOWN = ("code ETARGET", "code E404", "there is no version of", "No matching distribution")


@dataclass(frozen=True)
class InstallStep:
    """Command of an install."""

    title: str
    command: str
    env: Mapping[str, str] = field(default_factory=dict)
    takes_token: bool = False


def install_steps(source: AgentSource, version: str | None) -> list[InstallStep]:
    """Return the commands that install a package or a repository; the host puts objects in place."""
    if npm := source.npm:
        env = {"BY_SPEC": f"{npm.package_name}@{version}" if version else npm.package_name}
        if npm.registry_url:
            env["npm_config_registry"] = npm.registry_url
        return [InstallStep(f"npm install {env['BY_SPEC']}", _NPM, env)]
    if pip := source.pip:
        env = {"BY_SPEC": f"{pip.package_name}=={version}" if version else pip.package_name}
        if pip.registry_url:
            env |= {"UV_DEFAULT_INDEX": pip.registry_url, "PIP_INDEX_URL": pip.registry_url}
        return [InstallStep(f"pip install {env['BY_SPEC']}", _PIP, env)]
    return _git_steps(source.git, version) if source.git else []


def package_steps(package: Package) -> list[InstallStep]:
    """Return the commands that install a public agent; package scripts are off, since none are needed."""
    env = {"BY_SPEC": package.spec, "BY_MORE": " ".join(package.more)}
    env |= {"npm_config_ignore_scripts": "true", "npm_config_omit": "optional"}
    script = _PIP if package.type == "pip" else _NPM
    steps = [InstallStep(f"{package.type} install {package.spec}", script, env)]
    return steps + [InstallStep(f"$ {command}", command) for command in package.setup]


def is_unknown_version(said: str) -> bool:
    """Tell whether this output of npm or pip says that there is no such version."""
    return any(each in said for each in _UNKNOWN)


def _git_steps(source: GitSource, version: str | None) -> list[InstallStep]:
    env = {"BY_URL": source.repository, "GIT_TERMINAL_PROMPT": "0"}
    found = [InstallStep(f"git clone {source.repository}", _GIT, env, takes_token=True)]
    if source.ref:
        found.append(
            InstallStep(f"git checkout {source.ref}", _CHECKOUT, {"BY_REF": source.ref}, takes_token=True)
        )
    elif version:
        # A version may be a tag, a branch, or merely a user's label.
        found.append(InstallStep(f"git checkout {version}", _CHECKOUT_IF_THERE, {"BY_WANTED": version}))
    return found


def use_loader(program: Path, loader: str) -> None:
    """Set the loader of a program (blocks); one without a loader stays as it is. Raises InstallFailed."""
    if program.is_symlink() or not program.is_file():
        raise InstallFailed(f"its package has no program {program.name!r} where it was expected")
    with program.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        if content[: len(elf.MAGIC)] != elf.MAGIC:
            raise InstallFailed(f"{program.name!r} of its package is not a program for this machine")
        place = elf.loader_place(content)
        if place is None:
            return
        start, room = place
        written = loader.encode() + b"\0"
        if len(written) > room:
            raise InstallFailed(f"{program.name!r} has no room for the path of a loader")
        content[start : start + room] = written.ljust(room, b"\0")


AGENTS_FOLDER = "/opt/benchyard/agents"
"""Folder in devboxes that holds the agents, each in a folder of its own."""
MOST_BYTES = 8 * 1024**3
MOST_ENTRIES = 500_000
"""Most files, folders and links of one agent."""

_LAYOUT = 1
_ROOT = "root"
_SAID_LINES = 30
_SAID_CHARACTERS = 2000
_ARCHIVES = ("tar", "tgz")
_PACKAGE_BINS = ("bin",)
_FOLDER_BINS = ("bin", "node_modules/.bin", ".venv/bin")


class Installer:
    """Makes the folders of agents, as many at a time as builds."""

    def __init__(self, tools: EngineContext, kits: KitFolders) -> None:
        self._tools = tools
        self._kits = kits
        self._turns = asyncio.Semaphore(tools.settings.builds_at_once)

    async def install(self, record: RegisteredAgent, token: str | None = None) -> InstalledAgent:
        """Return an agent's place, installing it if necessary. Raises InstallFailed with the last output."""
        assert record.source is not None
        runtime = await runtime_of(record.source.type, self._kits)
        target = f"{AGENTS_FOLDER}/{record.id}"

        async def fill(folder: Path) -> None:
            async with self._turns:
                await self._fill(_Installation(self._tools, record, runtime, target, token), folder)

        folder = await self._kits.folder(_installation_key(record, runtime), fill)
        names = _PACKAGE_BINS if record.source.type in ("npm", "pip") else _FOLDER_BINS
        bins = tuple(f"{target}/{name}" for name in names if _is_folder(folder, name))
        return InstalledAgent((Kit(folder, target), *runtime.kits), bins)

    async def is_installed(self, record: RegisteredAgent) -> bool:
        """Tell whether an agent's folder is there; does not install it."""
        assert record.source is not None
        known = self._kits.known()
        runtime = await runtime_of(record.source.type, known)
        return known.has(_installation_key(record, runtime))

    async def _fill(self, installation: "_Installation", folder: Path) -> None:
        seconds = self._tools.settings.build_seconds
        try:
            async with asyncio.timeout(seconds):
                await installation.run(folder)
        except TimeoutError as error:
            raise installation.failed(f"it took longer than {seconds:.0f} s") from error
        except InstallFailed:
            raise
        except BenchyardError as error:
            raise installation.failed(error.message) from error


def _installation_key(record: RegisteredAgent, runtime: Runtime) -> str:
    # The runtime is part of the key: the agent's links lead there.
    key = f"agent {_LAYOUT} {record.id} {' '.join(kit.target for kit in runtime.kits)}"
    package = public.package_of(record)
    return f"{key} {package}" if package else key


def _is_folder(folder: Path, name: str) -> bool:
    """Tell whether the tree has this folder without following links, since its content is untrusted."""
    at = folder
    for part in name.split("/"):
        at /= part
        if at.is_symlink() or not at.is_dir():
            return False
    return True


@dataclass
class _Installation:
    """Install of an agent in one devbox."""

    tools: EngineContext
    record: RegisteredAgent
    runtime: Runtime
    target: str
    token: str | None = field(default=None, repr=False)
    devbox_id: str = ""
    env: Mapping[str, str] = field(default_factory=dict)

    def failed(self, reason: str) -> InstallFailed:
        """Return the error for this reason, without the token."""
        version = f"@{self.record.version}" if self.record.version else ""
        hidden = reason.replace(self.token, "***") if self.token else reason
        return InstallFailed(f"agent {self.record.name}{version} could not be installed: {hidden}")

    async def run(self, folder: Path) -> None:
        """Install in a devbox and keep the result in a new folder; the devbox ends in any case."""
        # A new id each time: the devbox of an earlier server is being removed.
        self.devbox_id = f"{self.record.id}-{secrets.token_hex(4)}"
        self.env = {**await runtimes.registry_variables(), **dict(self.runtime.env)}
        try:
            await self.tools.host.start(self._start_request())
            await self._make_folder()
            await self._fetch()
            await self._set_up()
            await self._keep(folder)
            await asyncio.to_thread(self._finish, folder)
        finally:
            await run_to_end(erase_devbox(self.tools, self.devbox_id))

    def _finish(self, folder: Path) -> None:
        """Make the programs of a public agent start in any image, and note which agent it is (blocks)."""
        package = public.package_of(self.record)
        for program in package.programs if package else ():
            try:
                use_loader(folder / program, f"{self.runtime.kits[0].target}/{programs.LOADER}")
            except InstallFailed as error:
                raise self.failed(error.message) from error
        public.write_note(folder, self.record)

    def _start_request(self) -> StartRequest:
        settings = self.tools.settings
        kits = (*self.runtime.kits, *self.runtime.installers)
        return StartRequest(
            id=self.devbox_id,
            image=DEFAULT_IMAGE,
            network=Network(settings.build_network),
            limits=DevboxLimits(
                cpus=float(os.cpu_count() or 1),
                memory_bytes=settings.build_memory_bytes,
                disk_bytes=settings.build_disk_bytes,
                output_bytes=MOST_BYTES,
            ),
            user=DEFAULT_USER,
            mounts=tuple(HostFolder(kit.source, kit.target) for kit in kits),
        )

    async def _make_folder(self) -> None:
        has_users = Capability.USERS in self.tools.host.capabilities
        script = 'mkdir -p -- "$1" && { [ -z "$2" ] || chown -- "$2" "$1"; }'
        owner = f"{DEFAULT_USER}:" if has_users else ""
        await self._run_command(
            "its folder",
            ExecRequest(
                id="folder",
                argv=("/bin/sh", "-c", script, "sh", self.target, owner),
                cwd="/",
                user=_ROOT if has_users else None,
            ),
        )

    async def _fetch(self) -> None:
        source = self.record.source
        assert source is not None
        if source.object:
            await self._unpack(source.object.object_id)
            return
        package = public.package_of(self.record)
        steps = package_steps(package) if package else install_steps(source, self.record.version)
        for step in steps:
            secret = {TOKEN_VARIABLE: self.token} if step.takes_token and self.token else {}
            await self._shell(step.title, step.command, {**self.env, **step.env}, secret)

    async def _unpack(self, object_id: str) -> None:
        """Put a stored object in place: an archive unpacked, any other file as a program under its name."""
        stored = await self.tools.objects.get(object_id)
        path = self.target
        if stored.content_type not in _ARCHIVES:
            name = posixpath.basename(stored.name.rstrip("/")) or "agent"
            path = f"{path}/{name.removesuffix('.gz') if stored.content_type == 'gzip' else name}"
        devbox = Devbox(id=self.devbox_id, create_time_ms=now_ms(), image=DEFAULT_IMAGE)
        mount = ObjectMount(object_id=object_id, object_path=path)
        if failure := await put_mount(self.tools, devbox, 0, mount):
            raise self.failed(failure)
        if path != self.target:
            await self._shell("its program", f"chmod 755 -- {shlex.quote(path)}", {}, {})

    async def _set_up(self) -> None:
        source = self.record.source
        assert source is not None
        names = _PACKAGE_BINS if source.type in ("npm", "pip") else _FOLDER_BINS
        first = ":".join(f"{self.target}/{name}" for name in names)
        for command in source.setup:
            script = f'export PATH={first}:"$PATH"\n{command}'
            await self._shell(f"$ {command}", script, self.env, {})

    async def _shell(
        self, title: str, command: str, env: Mapping[str, str], secret: Mapping[str, str]
    ) -> None:
        """Run a command in the agent's folder. A secret comes by standard input: files would keep it."""
        prelude = "exec 2>&1\n" + ('eval "$(cat)"\nexec </dev/null\n' if secret else "")
        request = ExecRequest(
            id=f"step-{secrets.token_hex(4)}",
            command=f"{prelude}cd -- {self.target} || exit 1\n{command}",
            env=dict(env),
            attach_stdin=bool(secret),
            # A background process could change the folder while it is packed.
            strict=True,
        )
        given = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in secret.items())
        await self._run_command(title, request, given)

    async def _run_command(self, title: str, request: ExecRequest, given: str = "") -> ExecutionState:
        host = self.tools.host
        state = await host.exec(self.devbox_id, request)
        if request.attach_stdin:
            await host.control(self.devbox_id, state.id, Stdin(given.encode(), close=True))
        state = await wait_for_completion(self.tools, state)
        if state.exit_status != 0:
            said = await self._error_text(state)
            package, hint = public.package_of(self.record), ""
            if package is not None and is_unknown_version(said):
                # The most common mistake.
                hint = f"the registry has no version {package.version} of {package.name}; "
            raise self.failed(f"{hint}{title[:200]!r} ended with {state.exit_status}{said}")
        return state

    async def _error_text(self, state: ExecutionState) -> str:
        """Return advice and the last lines of output of a failed execution."""
        hint = state.hint or ""
        if hint == executions.NO_NETWORK:
            hint = "installs have no network here: start the server with --build-network host"
        lines = ""
        for stream in ("stdout", "stderr"):
            text, _ = await self.tools.host.tail(self.devbox_id, state.id, stream, _SAID_LINES)
            lines += text
        said = lines.strip()[-_SAID_CHARACTERS:]
        return (f" ({hint})" if hint else "") + (f":\n{said}" if said else "")

    async def _keep(self, folder: Path) -> None:
        """Take the agent's folder out of the devbox, without anything that could do harm here."""
        request = ExecRequest(
            id="pack", argv=("tar", "-cf", "-", "-C", self.target, "."), cwd="/", user=_ROOT, strict=True
        )
        state = await self._run_command("packing it", request)
        if state.stdout_truncated:
            raise self.failed(f"it takes more than {MOST_BYTES} bytes")
        async with self.tools.images.scratch() as scratch:
            archive = scratch / "agent.tar"
            with archive.open("xb") as file:
                async for piece in self.tools.host.output(self.devbox_id, "pack", "stdout", follow=False):
                    await asyncio.to_thread(write_all, file.fileno(), piece)
            try:
                await unpack_plain(archive, folder, MOST_ENTRIES, MOST_BYTES)
            except ImageError as error:
                raise self.failed(error.message) from error
