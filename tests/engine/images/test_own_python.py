"""A Python of this machine as a tree that can be put into an image."""

import subprocess
from pathlib import Path

from benchyard.engine.images import stand_ins
from benchyard.scorers.kits.pythons import Python


def made_at(prefix: Path) -> Python:
    """Something that is laid out as a Python is, and says where it lies."""
    modules = prefix / "lib/python3.77"
    (modules / "site-packages/mine").mkdir(parents=True)
    (modules / "config-3.77").mkdir()
    (modules / "config-3.77/Makefile").write_text(f"prefix={prefix}\n")
    (modules / "config-3.77/libpython3.77.a").write_bytes(b"large")
    (modules / "_sysconfigdata_x.py").write_text(f"build_time_vars = {{'INCLUDEPY': '{prefix}/include'}}\n")
    (modules / "os.py").write_text("")
    (modules / "gone.py").symlink_to("nowhere")
    (prefix / "include/python3.77").mkdir(parents=True)
    (prefix / "include/python3.77/Python.h").write_text("")
    (prefix / "include/python3.77m").mkdir()
    (prefix / "include/python3.77m/Python.h").write_text("")
    (prefix / "lib/libpython3.77.so.1.0").write_bytes(b"\x7fELF")
    (prefix / "lib/libpython3.77.so").symlink_to("libpython3.77.so.1.0")
    (prefix / "bin").mkdir()
    (prefix / "bin/python3.77").write_text("#!/bin/sh\necho 3.77\n")
    (prefix / "bin/python3.77").chmod(0o755)
    (prefix / "bin/python3.77-config").write_text(f"#!{prefix}/bin/python3.77\n")
    return Python("3.77.1", prefix / "bin/python3.77", "lib", modules)


def test_it_is_whole_without_what_was_added_to_it_and_says_where_it_will_lie(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    python, folder = made_at(tmp_path / "made/here"), tmp_path / "tree"
    stand_ins.write_python(python, folder)
    assert list((folder / "lib/python3.77/site-packages").iterdir()) == []
    assert (folder / "include/python3.77/Python.h").exists()
    assert (folder / "include/python3.77m/Python.h").exists()
    assert str((folder / "lib/libpython3.77.so").readlink()) == "libpython3.77.so.1.0"
    assert (folder / "lib/python3.77/_sysconfigdata_x.py").read_text().endswith("'/usr/local/include'}\n")
    assert (folder / "lib/python3.77/config-3.77/Makefile").read_text() == "prefix=/usr/local\n"
    assert (folder / "bin/python3-config").read_text() == "#!/usr/local/bin/python3.77\n"
    assert not (folder / "lib/python3.77/config-3.77/libpython3.77.a").exists()
    for name in ("python", "python3"):
        ran = subprocess.run([folder / "bin" / name], capture_output=True, text=True, check=True)
        assert ran.stdout == "3.77\n"
