"""Files of packages, changed as their place in a kit asks for."""

import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from benchyard.devboxes import elf
from benchyard.scorers.kits import programs

LARGE = 640 * 1024**2
MOST_GROWTH = 300 * 1024**2
PATHS = b"/somewhere:$ORIGIN/../libs:/else"
LOADER = b"/lib64/ld-linux-x86-64.so.2\0"
FIT = """
import resource, sys
from pathlib import Path
from benchyard.scorers.kits import package_files
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name in sys.argv[1:]:
    package_files.fit(Path(name), "/dev/kown", "/dev/kbase/loader", is_beside_python=False)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


FINISH = """
import asyncio, resource, sys
from pathlib import Path
from benchyard.scorers.kits import packages, pythons

async def main():
    folder, packages.MOST_BYTES = Path(sys.argv[1]), int(sys.argv[2])
    python = await pythons.choose(None)
    (folder / "lib" / python.modules.name).mkdir(parents=True)
    (folder / "given").rename(packages._site_packages(folder, python))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await packages._finish(folder, ("/dev/kown", "/dev/kbase"), python)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)

asyncio.run(main())
"""
MANY = 40_000
MOST_GROWTH_OF_SERVER = 8 * 1024**2


def library(path: Path, size: int, *, is_program: bool = False) -> Path:
    """Write a library with places to look for others, and nothing in it for most of its size."""
    count = 3 if is_program else 2
    strings, dynamic, named = 1024, 2048, 3072
    head = (
        elf.MAGIC
        + b"\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, count, 0, 0, 0)
    )
    parts = [(1, 0, 0, size), (2, dynamic, dynamic, 64), (3, named, named, len(LOADER))][:count]
    table = b"".join(
        struct.pack("<IIQQQQQQ", kind, 4, at, to, to, length, length, 8) for kind, at, to, length in parts
    )
    with path.open("wb") as file:
        file.write(head + table)
        file.seek(strings)
        file.write(b"\0" + PATHS + b"\0")
        file.seek(dynamic)
        file.write(struct.pack("<QQQQQQ", 5, strings, 29, 1, 0, 0))
        file.seek(named)
        file.write(LOADER)
        file.truncate(size)
    return path


def test_large_libraries_take_no_memory(tmp_path: Path) -> None:
    paths = [library(tmp_path / "a.so", LARGE), library(tmp_path / "program", LARGE, is_program=True)]
    ran = subprocess.run(
        [sys.executable, "-c", FIT, *map(str, paths)], capture_output=True, text=True, check=True
    )
    assert int(ran.stdout) < MOST_GROWTH
    for path in paths:
        with path.open("rb") as file:
            file.seek(1025)
            assert file.read(len(PATHS)) == b"$ORIGIN/../libs".ljust(len(PATHS), b"\0")
        assert path.stat().st_blocks * 512 < 1024**2
    with paths[1].open("rb") as file:
        file.seek(LARGE)
        assert file.read() == b"/dev/kbase/loader\0"


@pytest.mark.parametrize("is_program", [True, False])
def test_files_are_changed_in_place_as_in_memory(tmp_path: Path, is_program: bool) -> None:
    made = library(tmp_path / "made", 8192, is_program=is_program)
    before = made.read_bytes()
    elf.fit_file(made, "/dev/kbase/loader")
    expected = programs.own_program(before, "/dev/kbase") if is_program else elf.with_own_paths(before)
    assert made.read_bytes() == expected


def test_real_programs_are_changed_in_place_as_in_memory(tmp_path: Path) -> None:
    real = Path(shutil.copy("/bin/ls", tmp_path / "ls"))
    before = real.read_bytes()
    elf.fit_file(real, "/dev/kbase/loader")
    assert real.read_bytes() == programs.own_program(before, "/dev/kbase")


@pytest.mark.parametrize("size", [8, 70, 200])
def test_broken_ones_are_left_as_they_are(tmp_path: Path, size: int) -> None:
    whole = library(tmp_path / "whole", 8192).read_bytes()
    torn = tmp_path / "torn"
    torn.write_bytes(whole[:size])
    ran = subprocess.run([sys.executable, "-c", FIT, str(torn)], capture_output=True, check=True)
    assert ran.returncode == 0
    assert torn.read_bytes() == whole[:size]


def finish(folder: Path, most: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", FINISH, str(folder), str(most)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_server_itself_reads_none_of_the_files(tmp_path: Path) -> None:
    given = tmp_path / "given"
    (given / "bin").mkdir(parents=True)
    (given / "one.txt").write_text("x")
    for number in range(MANY):
        (given / f"{number}.txt").hardlink_to(given / "one.txt")
    library(given / "large.so", LARGE)
    (given / "bin/tool").write_text("#!/usr/bin/python3 -I\nprint(1)\n")
    (given / "bin/other").write_text("#!/bin/sh\n")
    (given / "a-1.0.dist-info").mkdir()
    done = finish(tmp_path, 4 * 1024**3)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < MOST_GROWTH_OF_SERVER
    (made,) = tmp_path.glob("lib/python*/site-packages/large.so")
    with made.open("rb") as file:
        file.seek(1025)
        assert file.read(len(PATHS)) == b"$ORIGIN/../libs".ljust(len(PATHS), b"\0")
    assert (tmp_path / "bin/tool").read_text() == "#!/dev/kown/bin/python3\nprint(1)\n"
    assert (tmp_path / "bin/tool").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "bin/other").read_text() == "#!/bin/sh\n"
    assert (tmp_path / "resolved").read_text() == "a==1.0"
    assert sorted(path.name for path in (tmp_path / "bin").iterdir()) == [
        "other",
        "python",
        "python3",
        "tool",
    ]


def test_packages_that_are_too_large_are_refused_with_their_size(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    library(tmp_path / "given/large.so", LARGE)
    done = finish(tmp_path, 1000)
    assert done.returncode
    assert re.search(rf"the requirements take {LARGE // 1000}\d\d\d bytes; .* may have 1000", done.stderr)
