"""Wheels of our own making, and an index that is a folder of them."""

import zipfile
from pathlib import Path

import pytest


def wheel(folder: Path, name: str, module: str) -> None:
    """Write a wheel of version 1.5 with one module; its `main` is the program of its name, and NAME-tool."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-1.5.dist-info"
    programs = f"[console_scripts]\n{name}-tool = {name}:main\n{name} = {name}:main\n"
    with zipfile.ZipFile(folder / f"{name}-1.5-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", module)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/entry_points.txt", programs)
        archive.writestr(f"{info}/RECORD", "")


def use_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this folder be the index that the server is configured with."""
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
