"""The verifier kit: downloads of test scripts of tasks, shown read-only in the room where they run.

<tools>/bin/            uv, uvx, bash, sh; stand-ins for programs that need a network: curl, wget, apt-get,
apt <tools>/libexec/        the real curl and wget of the server, if it has them <wheels>/wheels/        the
packages that the script installs <python>/               the Python that the script asks for, or the nearest
that the server has

The kit uses nothing of the image, so that files an agent left there cannot replace its parts. Scripts find
it because its folder comes first in PATH.
"""

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

from benchyard.errors import ScorerFailed
from benchyard.hosts.kits import Kit, Kits
from benchyard.scorers.kits import programs, python_kit, pythons
from benchyard.scorers.kits.pythons import Python
from benchyard.scorers.verifier import replacements, wheel_kit
from benchyard.scorers.verifier.script_needs import ScriptNeeds, needs_of

__all__ = ["USUAL_PATH", "ScriptNeeds", "command", "environment", "facts", "make", "needs_of"]

USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Search path of images that do not set one."""

_LAYOUT = 1
_STAND_INS = {
    **dict.fromkeys(("curl", "wget"), "fetch"),
    **dict.fromkeys(("apt-get", "apt"), "apt"),
    "install-uv": "install_uv",
    "uvx": "tool",
}
"""Name in the kit -> module that the program is copied from."""
_REAL = ("curl", "wget")
_OTHER_PYTHON = "other_python"
_LIBRARIES = ("libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2")
_PATH_FIRST = 'export PATH="$0:$PATH"; exec "$@"'
_MOST_FACT = 4000


async def make(needs: ScriptNeeds, kits: Kits) -> tuple[Kit, ...]:
    """Make the kits for a script's needs: tools, wheels, Python; raises ScorerFailed with the remedy."""
    python = await (pythons.nearest(needs.python) if needs.python else pythons.choose(None))
    base = await python_kit.make(python, kits)
    tools = await _tools(needs, python, base, kits)
    wheels = await wheel_kit.make(needs, python.version, kits)
    return tools, wheels, base


def environment(made: Sequence[Kit], path: str = USUAL_PATH) -> dict[str, str]:
    """Return the variables for the script; `path` is the image's own PATH."""
    tools, wheels, _ = made
    folder = f"{wheels.target}/{wheel_kit.FOLDER}"
    uv = {
        "UV_OFFLINE": "1",
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": folder,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_PYTHON_PREFERENCE": "only-system",
        "UV_LIBC": "gnu",
        "UV_NO_CACHE": "1",
        "UV_NO_CONFIG": "1",
        "UV_LINK_MODE": "copy",
        "UV_NO_PROGRESS": "1",
    }
    pip = {
        # Set as the index, not as a further one, so that an index that the tests name replaces it.
        "PIP_INDEX_URL": f"file://{wheels.target}/{wheel_kit.INDEX}",
        "PIP_FIND_LINKS": folder,
        "PIP_RETRIES": "0",
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }
    return {"PATH": f"{tools.target}/bin:{path}", "BASH_ENV": "", "ENV": "", **uv, **pip}


def command(made: Sequence[Kit], script: str) -> tuple[str, ...]:
    """Return the command that runs a script by the kit's shell, with the kit first in the room's PATH."""
    folder = f"{made[0].target}/bin"
    shell = (f"{folder}/bash", "--noprofile", "--norc")
    return (*shell, "-c", _PATH_FIRST, folder, *shell, script)


def facts(made: Sequence[Kit]) -> dict[str, str]:
    """Return facts to keep with the result: the Python, the requested one if it differs, and the packages."""
    tools, wheels, _ = made
    told = dict(line.split("=", 1) for line in (tools.source / "facts").read_text().splitlines())
    return {**told, "packages": wheel_kit.resolved_versions(wheels)[:_MOST_FACT]}


async def _tools(needs: ScriptNeeds, python: Python, base: Kit, kits: Kits) -> Kit:
    """Make the kit of tools, without packages; `base` is the kit of the Python that runs them."""
    uv, bash = await asyncio.to_thread(programs.find, "uv"), _program("bash")
    real = {name: Path(path).resolve() for name in _REAL if (path := shutil.which(name))}
    is_exact = needs.python is None or python.version.startswith(f"{needs.python}.")
    sources = [Path(replacements.__file__).with_name(f"{name}.py") for name in _modules()]
    digest = programs.digest(uv, bash, *real.values(), *sources)
    key = f"verifier {_LAYOUT} {base.target} {python.version} {'' if is_exact else needs.python} {digest}"
    target = programs.target(key)

    async def fill(folder: Path) -> None:
        parts = {"bin/uv" if is_exact else "libexec/uv": uv, "bin/bash": bash}
        parts |= {f"libexec/{name}": path for name, path in real.items()}
        contents = programs.KitContents(parts, libraries=_LIBRARIES)
        await asyncio.to_thread(programs.write, folder, target, contents)
        stand_ins = _STAND_INS if is_exact else {**_STAND_INS, "uv": _OTHER_PYTHON}
        for name, module in stand_ins.items():
            _write_stand_in(folder / "bin" / name, module, python_kit.program(base.target))
        minor = python.version.rpartition(".")[0]
        for name in (f"python{minor}", "python-of-kit"):
            (folder / "bin" / name).symlink_to(python_kit.program(base.target))
        # Environments made with this Python look for its modules beside the folder of its program.
        for name in {python.folder, "include"}:
            (folder / name).symlink_to(f"{base.target}/{name}")
        (folder / "bin/sh").symlink_to("bash")
        instead = "" if is_exact else f"python_asked={needs.python}\n"
        (folder / "facts").write_text(f"python={python.version}\n{instead}")

    return Kit(await kits.folder(key, fill), target)


def _modules() -> tuple[str, ...]:
    return (*dict.fromkeys(_STAND_INS.values()), _OTHER_PYTHON)


def _program(name: str) -> Path:
    path = shutil.which(name)
    if path is None:
        raise ScorerFailed(f"the verifier kit needs the program {name!r} on the server: install it there")
    return Path(path).resolve()


def _write_stand_in(place: Path, module: str, python: str) -> None:
    text = Path(replacements.__file__).with_name(f"{module}.py").read_text()
    programs.put(place, f"#!{python} -I\n{text}".encode())
