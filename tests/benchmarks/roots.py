"""A root folder for images, made of programs of this machine: small, with a Python, and of no network."""

import re
import shutil
import subprocess
from pathlib import Path

_PROGRAMS = ("bash", "patch", "awk", "sed", "grep", "tar", "gzip", "base64", "mktemp", "find", "sort", "stat")
_LONE = ("nohup", "setsid")
"""Programs that not every busybox has."""
_LIBRARY = re.compile(r"(/\S+) \(0x")


def with_programs(root: Path) -> Path:
    """A root with busybox, real programs where busybox knows less, and the Python of the system."""
    for name in ("bin", "etc", "tmp", "root", "home", "usr"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "usr/bin").symlink_to("../bin")
    busybox = shutil.which("busybox")
    assert busybox, "busybox is not installed: `make setup` does it"
    shutil.copy(busybox, root / "bin/busybox")
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for name in applets:
        if name not in (*_PROGRAMS, *_LONE) and name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    for name in (*_PROGRAMS, *_LONE):
        found = shutil.which(name)
        assert found, f"{name} is not installed"
        _copy(Path(found).resolve(), root / "bin" / name, root)
    _python(root)
    # Programs of wheels are linked against libraries that every distribution has.
    for library in Path("/lib").glob("*-linux-gnu/lib[dpgr]*.so.*"):
        if library.name in ("libdl.so.2", "libpthread.so.0", "libgcc_s.so.1", "librt.so.1"):
            shutil.copy(library, root / library.relative_to("/"))
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    return root


def _python(root: Path) -> None:
    program = Path("/usr/bin/python3").resolve()
    assert program.exists(), "python3 is not installed"
    _copy(program, root / "bin" / program.name, root)
    (root / "bin/python3").symlink_to(program.name)
    library = Path(f"/usr/lib/{program.name}")
    left_out = shutil.ignore_patterns(
        "test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "*.a", "config-*"
    )
    shutil.copytree(
        library,
        root / library.relative_to("/"),
        ignore=left_out,
        symlinks=False,
        ignore_dangling_symlinks=True,
    )
    for each in (root / library.relative_to("/") / "lib-dynload").glob("*.so"):
        _libraries(each, root)


def _copy(program: Path, target: Path, root: Path) -> None:
    shutil.copy(program, target)
    _libraries(program, root)


def _libraries(program: Path, root: Path) -> None:
    told = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    for each in _LIBRARY.findall(told):
        target = root / each.lstrip("/")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(each, target)
