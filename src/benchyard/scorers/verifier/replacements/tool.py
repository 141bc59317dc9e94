"""Stands in for `uvx`: runs the tool in an environment with programs that start by their Python, not a shell.

The real `uvx` makes relocatable environments, whose programs are started by `/bin/sh`.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

_VALUES = {"-p": "python", "--python": "python", "-w": "with", "--with": "with", "--from": "from"}
_FLAGS = ("-q", "--quiet", "-v", "--verbose", "--isolated", "--no-cache", "-n", "--offline", "--no-config")


def main(argv: list[str]) -> int:
    """Make the environment and become the tool; leave unknown options to the real program."""
    here = Path(argv[0]).absolute().parent.parent
    uv = str(here / "bin/uv")
    read = _read(argv[1:])
    if read is None:
        return os.execv(uv, [uv, "tool", "run", *argv[1:]])
    given, tool, arguments = read
    name, _, version = tool.partition("@")
    pinned = f"{name}=={version}" if version not in ("", "latest") else name
    packages = [*given["with"], *(given["from"] or [pinned])]
    folder = tempfile.mkdtemp(prefix="uvx-")
    python = ["--python", given["python"][-1]] if given["python"] else []
    steps = (
        [uv, "venv", "--quiet", "--no-project", *python, f"{folder}/env"],
        [uv, "pip", "install", "--quiet", "--python", f"{folder}/env/bin/python", *packages],
    )
    for step in steps:
        if status := subprocess.run(step, check=False).returncode:
            return status
    # The tool itself may fetch from servers on this machine, such as one that the task is about.
    for name_of in ("UV_OFFLINE", "UV_NO_INDEX"):
        os.environ.pop(name_of, None)
    os.environ["PATH"] = f"{folder}/env/bin{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return _become(f"{folder}/env/bin/{name}", arguments)


def _read(words: list[str]) -> tuple[dict[str, list[str]], str, list[str]] | None:
    """Return the options by meaning, the tool, and its arguments; None if an option is unknown."""
    options: dict[str, list[str]] = {"python": [], "with": [], "from": []}
    left = list(words)
    while left and left[0].startswith("-"):
        option, is_joined, value = left.pop(0).partition("=")
        if option in _FLAGS and not is_joined:
            continue
        if option not in _VALUES or not (is_joined or left):
            return None
        value = value if is_joined else left.pop(0)
        options[_VALUES[option]] += (
            re.split(r",(?![^\[]*\])", value) if option in ("-w", "--with") else [value]
        )
    return (options, left[0], left[1:]) if left else None


def _become(program: str, arguments: list[str]) -> int:
    try:
        return os.execv(program, [program, *arguments])
    except OSError as error:
        sys.stderr.write(f"uvx: {program}: {error.strerror}\n")
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv))
