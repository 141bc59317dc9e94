"""Named shells as a function over single commands.

Each command of a named shell runs in a fresh login shell that first restores the state left by the previous
one (directory, variables, functions, aliases, options) and at its end writes the same into a pipe. No state
lies inside the devbox; on the host it is sealed, since variables may be secrets. POSIX shells keep directory
and exported variables.
"""

import asyncio
import fcntl
import hashlib
import os
import re
import shlex
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchyard.errors import StoreError, UsageError
from benchyard.store.vault import Vault

BASH = "/bin/bash"
SH = "/bin/sh"
MAX_ARGUMENT_BYTES = 100_000
"""Longer commands go through a descriptor: the kernel takes no argument of 128 KiB or more."""
MAX_STATE_BYTES = 4 * 1024 * 1024
_COMPLETE = b"\n#complete\n"
_READS_AT_ONCE = 32
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_FINAL = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
_SEALED_START = b"gAAAA"

_BASH_RESTORE = r"""
__benchyard_save() {
  local __benchyard_status=$1 __benchyard_flags=$- __benchyard_options __benchyard_names
  local __benchyard_name __benchyard_kept=()
  {
    builtin trap '' PIPE
    __benchyard_options=$(builtin set +o)
    case $__benchyard_flags in *e*) __benchyard_options+=$'\nset -e' ;; esac
    builtin set +eux -f
    builtin unset -f __benchyard_save
    builtin mapfile -t __benchyard_names < <(builtin compgen -v)
    for __benchyard_name in "${__benchyard_names[@]}"; do
      case $__benchyard_name in
        __benchyard*|BASH*|COMP_*|EPOCH*|DIRSTACK|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO|PIPESTATUS|PPID|PWD) ;;
        RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID|COLUMNS|LINES|_) ;;
        *) __benchyard_kept+=("$__benchyard_name") ;;
      esac
    done
    builtin printf 'builtin cd -- %q\n' "$PWD"
    builtin umask -p
    builtin shopt -p
    builtin declare -p "${__benchyard_kept[@]}"
    builtin declare -f
    builtin declare -Fx
    builtin alias -p
    builtin printf '%s\n\n#complete\n' "$__benchyard_options"
    builtin eval "$__benchyard_options"
  } >&9 2>/dev/null
  exec 9>&-
  return "$__benchyard_status"
}
IFS= builtin read -r -d '' -u 8 __benchyard_state
exec 8<&-
trap '__benchyard_save $?' EXIT
eval "unset __benchyard_state
$__benchyard_state" 2>/dev/null
"""
# On the line of the command: after one that cannot be parsed, bash takes a `{` on a new line for a program.
_BASH_SAVE = r"""; {
  __benchyard_status=$?
  [ "$(trap -p EXIT)" = "trap -- '__benchyard_save \$?' EXIT" ] && trap - EXIT
  __benchyard_save "$__benchyard_status"
} 2>/dev/null
exit "$__benchyard_status"
"""
_SH_RESTORE = r"""
__benchyard_save() {
  trap '' PIPE
  __benchyard_directory=$PWD
  export __benchyard_directory
  {
    export -p
    printf '%s\n\n#complete\n' 'cd -- "$__benchyard_directory"; unset __benchyard_directory'
  } >&9 2>/dev/null
}
trap __benchyard_save EXIT
eval "exec 8<&-
$(cat <&8)" 2>/dev/null
"""


@dataclass(frozen=True)
class Invocation:
    """The arguments and input files executed for one command."""

    argv: tuple[str, ...]
    extra_files: tuple[tuple[Path, str], ...] = ()


def check(command: str, argv: tuple[str, ...] | None, cwd: str | None) -> None:
    """Raise UsageError for a command that cannot be run."""
    if argv is not None and (command or not argv or not argv[0]):
        raise UsageError("`argv` begins with the name of a program, and excludes `command`")
    if any("\0" in text for text in (command, cwd or "", *(argv or ()))):
        raise UsageError("a command cannot hold NUL bytes; send them as standard input")


def plain(program: str, command: str, folder: Path, *, is_terminal: bool) -> Invocation:
    """Return a fresh login shell that runs the command, or an interactive one for none on a terminal."""
    if is_terminal and not command:
        return Invocation((program, "-l"))
    if len(command.encode()) <= MAX_ARGUMENT_BYTES:
        return Invocation((program, "-lc", command))
    return Invocation((program, "-lc", _by_descriptor(8)), ((_written(folder, command), "r"),))


def _by_descriptor(number: int) -> str:
    # Read from the descriptor directly: opening /dev/fd again would need the permissions of a closed file.
    return f'eval "exec {number}<&-\n$(cat <&{number})"'


def _written(folder: Path, command: str) -> Path:
    path = folder / "command"
    path.write_text(command)
    return path


@dataclass
class Shell:
    """A named shell of one user: its state on disk, and the queue of its executions."""

    state: Path
    vault: Vault
    queue: deque[str] = field(default_factory=deque)
    """Ids of executions; the first one runs."""

    @classmethod
    def named(cls, folder: Path, user: str, name: str, vault: Vault) -> "Shell":
        """Return a user's shell of that name; one user never restores the state of another."""
        return cls(folder / hashlib.sha256(f"{user}\0{name}".encode()).hexdigest()[:32], vault)

    def invocation(
        self, program: str, command: str, env: Mapping[str, str], folder: Path, opened: ExitStack
    ) -> Invocation:
        """Return the command, wrapped in code that restores the state and saves it to `folder/state`.

        The state to restore can be opened until `opened` is closed.
        """
        before, after = (_BASH_RESTORE, _BASH_SAVE) if program == BASH else (_SH_RESTORE, "")
        given = "".join(
            f"export {name}={shlex.quote(value)}\n"
            for name, value in env.items()
            if _VARIABLE.fullmatch(name)
        )
        files = [(_in_memory(self.stored_state(), opened), "r"), (folder / "state", "w")]
        body = f"eval {shlex.quote(command)}"
        if len(body.encode()) + len(given.encode()) > MAX_ARGUMENT_BYTES:
            if program != BASH:
                raise UsageError("a command of over 100 kB in a named shell needs bash in the devbox's image")
            files.append((_written(folder, command), "r"))
            body = _by_descriptor(10)
        return Invocation((program, "-lc", f"{before}{given}{body}{after}"), tuple(files))

    def keep(self, state: bytes | None) -> None:
        """Store the state left by a command as the shell's, if it is complete."""
        if state is None:
            return
        self.state.parent.mkdir(mode=0o700, exist_ok=True)
        _write_sealed(self.state, state, self.vault)

    def stored_state(self) -> bytes:
        """Return the state left by the last command; raise StoreError if it was sealed with another key."""
        try:
            found = self.state.read_bytes()
        except FileNotFoundError:
            return b""
        if not found.startswith(_SEALED_START):
            return found
        try:
            return self.vault.open(found.decode()).encode("latin-1")
        except StoreError as error:
            raise StoreError(
                "what this shell kept was sealed with a key that is gone; "
                "give the shell another name, or put the old secret-key back"
            ) from error


def _write_sealed(path: Path, state: bytes, vault: Vault) -> None:
    part = path.with_suffix(".part")
    part.touch(mode=0o600)
    part.write_text(vault.seal(state.decode("latin-1")))
    part.rename(path)


def seal_states(folder: Path, vault: Vault) -> None:
    """Seal the states of shells that lie in a folder in plain text, and remove incomplete ones."""
    for path in folder.iterdir():
        if path.suffix:
            path.unlink()
        elif (state := path.read_bytes()) and not state.startswith(_SEALED_START):
            _write_sealed(path, state, vault)


def _in_memory(content: bytes, opened: ExitStack) -> Path:
    """Return the path, in this process, of an unchangeable file in memory."""
    descriptor = os.memfd_create("benchyard-shell", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    opened.callback(os.close, descriptor)
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _FINAL)
    return Path(f"/proc/self/fd/{descriptor}")


class Capture:
    """A pipe for the state a command writes at its end: holding it open cannot make a file grow."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.exists():
            os.mkfifo(path, 0o600)
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._data = bytearray()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._read)

    def _read(self) -> None:
        for _ in range(_READS_AT_ONCE):
            try:
                data = os.read(self._descriptor, 65536)
            except BlockingIOError:
                return
            if len(self._data) <= MAX_STATE_BYTES:
                self._data += data

    def close(self) -> bytes | None:
        """Read the rest, and close the pipe; None unless the state is complete."""
        if self._descriptor < 0:
            return None
        self._read()
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
        self._path.unlink(missing_ok=True)
        whole = len(self._data) <= MAX_STATE_BYTES and self._data.endswith(_COMPLETE)
        return bytes(self._data) if whole else None

    def release(self) -> None:
        """Close the pipe before its end: the command lives on without us."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
