"""Users that run commands: names and ids from the devbox's own /etc/passwd and /etc/group."""

import os
from typing import NamedTuple

_MAX_FILE = 1024 * 1024
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class User(NamedTuple):
    """A user of a devbox."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str
    groups: tuple[int, ...]

    def environment(self) -> dict[str, str]:
        """Return the environment that a login gives every user."""
        return {
            "HOME": self.home,
            "USER": self.name,
            "LOGNAME": self.name,
            "SHELL": self.shell,
            "PATH": _PATH,
            "LANG": "C.UTF-8",
        }

    def become(self, *, can_change: bool) -> None:
        """Turn this process into the user; without `can_change` it stays as it is: only one id is mapped."""
        if can_change:
            os.setgroups(self.groups)
            os.setresgid(self.gid, self.gid, self.gid)
            os.setresuid(self.uid, self.uid, self.uid)

    def wear(self, *, can_change: bool) -> None:
        """Act as the user until `take_off`; processes spawned meanwhile are the user's for good."""
        if can_change:
            os.setgroups(self.groups)
            os.setresgid(self.gid, self.gid, 0)
            os.setresuid(self.uid, self.uid, 0)

    @staticmethod
    def take_off(*, can_change: bool) -> None:
        """Become root again after `wear`."""
        if can_change:
            os.setresuid(0, 0, 0)
            os.setresgid(0, 0, 0)
            os.setgroups([])


def rows(path: str) -> list[list[str]]:
    """Return the lines of a file that separates its fields with colons; none if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return [line.split(":") for line in file.read(_MAX_FILE).splitlines()]
    except OSError:
        return []


def find(name: str) -> User:
    """Return the user of that name, or of that number; raise LookupError.

    Root is always the user 0, whatever a list says that root in the devbox can write: commands requested as
    root must be out of reach of all other users.
    """
    is_root = name in ("root", "0")
    for row in rows("/etc/passwd"):
        if len(row) >= 7 and name in (row[0], row[2]) and row[2].isdigit() and row[3].isdigit():
            uid, gid = (0, 0) if is_root else (int(row[2]), int(row[3]))
            return User(row[0], uid, gid, row[5] or "/", row[6] or "/bin/sh", (gid, *_groups(row[0])))
    if is_root:
        return User("root", 0, 0, "/root" if os.path.isdir("/root") else "/", "/bin/sh", (0,))
    if name.isdigit():
        return User(name, int(name), int(name), "/", "/bin/sh", (int(name),))
    raise LookupError(f"this devbox has no user named {name!r}")


def _groups(name: str) -> tuple[int, ...]:
    row_list = [row for row in rows("/etc/group") if len(row) >= 4 and name in row[3].split(",")]
    return tuple(int(row[2]) for row in row_list if row[2].isdigit())[:32]


def expand(path: str, user: User) -> str:
    """Return an absolute path: `~` and relative paths start at the user's home."""
    if path == "~" or path.startswith("~/"):
        return user.home + path[1:]
    return path if path.startswith("/") else f"{user.home}/{path}"
