"""Wheels of our own making, and an index that is a folder of them."""

import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
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


BACKEND = """
import zipfile
METADATA = ("Metadata-Version: 2.1", "Name: NAME", "Version: 1.5", "")
WHEEL = ("Wheel-Version: 1.0", "Root-Is-Purelib: true", "Tag: py3-none-any", "")
def build_wheel(folder, settings=None, metadata=None):
    name = "NAME-1.5-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as archive:
        archive.write("NAME.py")
        for file, lines in {"METADATA": METADATA, "WHEEL": WHEEL, "RECORD": ()}.items():
            archive.writestr(f"NAME-1.5.dist-info/{file}", chr(10).join(lines))
    return name
"""
PROJECT = """[build-system]
requires = ["beside"]
build-backend = "backend"
backend-path = ["."]
"""


def source(folder: Path, name: str, module: str) -> None:
    """Write a package of version 1.5 that comes as source only, and needs `judge`; it builds itself."""
    files = {
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\nRequires-Dist: judge\n",
        "pyproject.toml": PROJECT,
        "backend.py": BACKEND.replace("NAME", name),
        f"{name}.py": module,
    }
    with tarfile.open(folder / f"{name}-1.5.tar.gz", "w:gz") as archive:
        for path, text in files.items():
            member = tarfile.TarInfo(f"{name}-1.5/{path}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of an index of the packages in a folder."""
    for path in list(folder.iterdir()):
        page = folder / path.name.partition("-")[0] / "index.html"
        page.parent.mkdir(exist_ok=True)
        page.write_text(f'<a href="../{path.name}">{path.name}</a>')
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def use_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this folder be the index that the server is configured with."""
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
