"""Importing does nothing but define: no output, no file, no thread, no connection."""

import ast
import subprocess
import sys
from pathlib import Path

from tests.house.tree import SRC, modules

NOT_FOR_IMPORT = (
    "benchyard.__main__",
    *(f"benchyard.api.ssh.{name}" for name in ("server", "sessions", "sftp")),
)
"""Run, not imported; or loaded only by who uses ssh: asyncssh looks for libraries as it is imported."""
GUEST = ("benchyard.devboxes.guest", "benchyard.devboxes.layers")
"""What runs beside and inside a devbox."""

IMPORT_ALL = """
import importlib, sys, threading

effects = []
WATCHED = {"socket.bind", "socket.connect", "subprocess.Popen", "os.mkdir", "os.remove", "os.fork"}

def watch(event, args):
    if event in WATCHED or (event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+")):
        effects.append(f"{current}: {event} {args!r}")

sys.addaudithook(watch)
for current in sys.argv[1:]:
    importlib.import_module(current)
    if threading.active_count() > 1:
        effects.append(f"{current}: started a thread")
        break
sys.exit("\\n".join(effects) or 0)
"""

IMPORT_GUEST = """
import importlib, sys

sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    importlib.import_module(name)
print("\\n".join(name for name in sys.modules if name.split(".")[0] == "benchyard"))
"""


def importable() -> list[str]:
    return [module.name for module in modules() if not module.name.startswith(NOT_FOR_IMPORT)]


def guest() -> list[str]:
    return [name for name in importable() if name.startswith(GUEST)]


def test_every_module_says_what_it_is_for() -> None:
    silent = [module.where for module in modules() if not ast.get_docstring(module.tree)]
    assert silent == []


def test_importing_everything_has_no_effect(tmp_path: Path) -> None:
    bare = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-B", "-c", IMPORT_ALL, *importable()]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=bare, check=False)
    assert ended.stdout + ended.stderr == ""
    assert list(tmp_path.iterdir()) == []


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [node.module or ""]
    return []


def test_guest_code_imports_the_standard_library_only() -> None:
    strangers = [
        f"{module.where} imports {name}"
        for module in modules()
        if module.name in guest()
        for node in ast.walk(module.tree)
        for name in imported(node)
        if name.split(".")[0] not in sys.stdlib_module_names and name not in guest()
    ]
    assert strangers == []


def test_guest_code_needs_no_installed_package() -> None:
    command = [sys.executable, "-I", "-S", "-c", IMPORT_GUEST, str(SRC), *guest()]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    assert set(ended.stdout.split()) == {"benchyard", "benchyard.devboxes", *guest()}


def test_a_command_loads_no_library_for_what_it_does_not_show() -> None:
    script = "import sys; from benchyard.cli.main import run; run(sys.argv[1:]); print(*sys.modules)"
    environ = {"BENCHYARD_URL": "http://127.0.0.1:9", "BENCHYARD_API_KEY": "none", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", script, "job", "list"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    loaded = set(ended.stdout.split())
    assert {"benchyard.cli.job.commands", "httpx"} < loaded
    assert not loaded & {"pygments", "rich.console", "yaml", "tarfile", "xml.etree.ElementTree", "aiohttp"}
