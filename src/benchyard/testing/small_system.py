"""A small root filesystem of this machine's own programs, for tests of drivers that need an image."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

_PROGRAMS = (
    *(
        "bash",
        "cat",
        "chmod",
        "chown",
        "cp",
        "cut",
        "date",
        "dd",
        "df",
        "dirname",
        "du",
        "echo",
        "env",
        "expr",
    ),
    *(
        "false",
        "find",
        "grep",
        "head",
        "hostname",
        "id",
        "kill",
        "ln",
        "ls",
        "mkdir",
        "mkfifo",
        "mktemp",
        "mount",
        "mv",
    ),
    *(
        "nice",
        "nproc",
        "printf",
        "ps",
        "pwd",
        "python3",
        "readlink",
        "rm",
        "rmdir",
        "sed",
        "seq",
        "setsid",
        "sh",
    ),
    *("sleep", "sort", "stat", "stty", "tail", "tar", "tee", "test", "timeout", "touch", "tr", "true"),
    *("truncate", "tty", "umount", "uname", "uniq", "unshare", "wc", "whoami", "xargs", "yes"),
)
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
_FOLDERS = (
    "dev",
    "etc",
    "home",
    "mnt",
    "opt",
    "proc",
    "root",
    "run",
    "srv",
    "sys",
    "tmp",
    "usr/sbin",
    "var/tmp",
)
_LEFT_OUT = ("test", "tests", "idlelib", "lib2to3", "ensurepip", "pydoc_data", "__pycache__", "dist-packages")
_PASSWD = "root:x:0:0:root:/root:/bin/bash\n"  # noqa: S105  no password is in it


def write_system(target: Path, more: Sequence[str] = ()) -> None:
    """Fill a new folder with programs, these too, with their libraries and Python's modules."""
    for name in _FOLDERS:
        (target / name).mkdir(parents=True)
    for name in ("tmp", "var/tmp"):
        (target / name).chmod(0o1777)
    for name, link in _LINKS.items():
        (target / link).mkdir(parents=True, exist_ok=True)
        (target / name).symlink_to(link)
    (target / "etc/passwd").write_text(_PASSWD)
    (target / "etc/group").write_text("root:x:0:\n")
    found = (shutil.which(name, path="/usr/bin:/usr/sbin") for name in (*_PROGRAMS, *more))
    programs = [Path(path) for path in found if path]
    for program in programs:
        _copy(program, target / "usr/bin" / program.name)
    modules = _copy_modules(target, target / "usr/bin/python3")
    for library in _libraries([*programs, *modules]):
        place = target / str(library.parent.resolve()).lstrip("/") / library.name
        if not place.exists():
            _copy(library, place)


def _copy(source: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, place)


def _copy_modules(target: Path, python: Path) -> list[Path]:
    """Copy Python's standard library; returns those parts of it that need libraries themselves."""
    if not python.exists():
        return []
    found = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    source = Path(found.stdout.strip())
    shutil.copytree(source, target / str(source).lstrip("/"), ignore=shutil.ignore_patterns(*_LEFT_OUT))
    return list((source / "lib-dynload").glob("*.so"))


def _libraries(files: list[Path]) -> set[Path]:
    told = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False).stdout
    return {Path(path) for path in re.findall(r"(/\S+) \(0x", told)}
