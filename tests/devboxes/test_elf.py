"""Programs changed in their bytes; that they run so is shown by the scorers whose kits are made of them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchyard.devboxes import elf

PYTHON = Path(sys.executable).resolve()


def run(program: Path) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([program, "-I", "-S", "-c", "print(1)"], capture_output=True, check=False)


def test_a_program_names_another_loader_and_runs_by_it(tmp_path: Path) -> None:
    content = PYTHON.read_bytes()
    loader = elf.loader(content)
    assert loader is not None
    other = tmp_path / "a-loader-with-a-name-that-is-longer-than-the-one-before"
    shutil.copy(loader, other)
    program = tmp_path / "program"
    program.write_bytes(elf.with_loader(content, str(other)))
    program.chmod(0o755)
    assert elf.loader(program.read_bytes()) == str(other)
    assert run(program).returncode == 0
    other.unlink()
    with pytest.raises(FileNotFoundError):
        run(program)


def test_libraries_have_no_loader_to_be_changed() -> None:
    library = next(Path("/usr/lib").glob("*/libc.so.6")).read_bytes()
    with pytest.raises(ValueError, match="names no loader"):
        elf.with_loader(b"\x7fELF\x02\x01" + bytes(100), "/x")
    assert elf.closed_library(library) != library
    assert len(elf.closed_library(library)) == len(library)


def test_a_closed_loader_knows_no_folder_of_the_system(tmp_path: Path) -> None:
    loader = elf.loader(PYTHON.read_bytes())
    assert loader is not None
    closed = elf.closed_loader(Path(loader).read_bytes(), "/dev/kxxxxxxxx/c")
    for path in (b"/etc/ld.so.preload\0", b"/etc/ld.so.cache\0", b"/usr/lib/\0", b"/lib/\0"):
        assert path not in closed
    assert b"/dev/kxxxxxxxx/c\0" in closed
    (tmp_path / "loader").write_bytes(closed)
    (tmp_path / "loader").chmod(0o755)
    ended = subprocess.run([tmp_path / "loader", PYTHON, "-V"], capture_output=True, check=False)
    assert b"cannot open shared object file" in ended.stderr
    with pytest.raises(ValueError, match="cannot have its cache"):
        elf.closed_loader(closed, "/dev/kxxxxxxxx/c")
    with pytest.raises(ValueError, match="cannot have its cache"):
        elf.closed_loader(Path(loader).read_bytes(), "/dev/kxxxxxxxx/cc")


def test_names_in_a_cache_stand_in_the_order_of_the_systems_own() -> None:
    told = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    names = list(dict.fromkeys(re.findall(r"^\t(\S+) \(", told, re.MULTILINE)))
    assert len(names) > 10
    written = elf.cache({name: f"/x/{name}" for name in sorted(names)}, 62)
    found = re.findall(rb"([^\0]+)\0(/x/[^\0]+)\0", written[48 + 24 * len(names) :])
    assert [name.decode() for name, _path in found] == names
    assert written.startswith(b"glibc-ld.so.cache1.1")
    with pytest.raises(ValueError, match="not known"):
        elf.cache({}, 8)
