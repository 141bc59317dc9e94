"""Stands in for `curl` and `wget`: gives the kit's installer of `uv`; runs the real program for all else."""

import os
import re
import shutil
import sys
from pathlib import Path

_INSTALLER = re.compile(
    r"(https?://)?(astral\.sh/uv/([0-9.]+/)?install\.sh|"
    r"github\.com/astral-sh/uv/releases/(latest/download|download/[0-9.]+)/uv-installer\.sh)"
)
_NOT_FOUND = 127
_TO_FILE = {"curl": ("-o", "--output"), "wget": ("-O", "--output-document")}
_OF_ITS_NAME = {"curl": ("-O", "--remote-name"), "wget": ()}


def main(argv: list[str]) -> int:
    """Print or write the installer if an argument names it; else become the real program."""
    here = Path(argv[0]).absolute().parent.parent
    name = Path(argv[0]).name
    url = next((word for word in argv[1:] if _INSTALLER.fullmatch(word)), None)
    if url is None:
        return _become_real(here, name, argv[1:])
    script = f"#!/bin/sh\nexec '{here}/bin/install-uv'\n"
    place = _place(name, argv[1:], url)
    if place in (None, "-"):
        sys.stdout.write(script)
    else:
        Path(str(place)).write_text(script)
    return 0


def _place(name: str, words: list[str], url: str) -> str | None:
    """Return the file to write to; None is standard output."""
    for at, word in enumerate(words):
        for option in _TO_FILE[name]:
            if word == option and at + 1 < len(words):
                return words[at + 1]
            if option.startswith("--") and word.startswith(f"{option}="):
                return word.partition("=")[2]
        # Combined short options: the value of the last is the rest of this word, or else the next word.
        if match := re.fullmatch(rf"-[A-Za-z]*?{_TO_FILE[name][0][1]}(.*)", word):
            return match[1] or (words[at + 1] if at + 1 < len(words) else None)
    is_named = any(word in _OF_ITS_NAME[name] for word in words) or name == "wget"
    return url.rpartition("/")[2] if is_named else None


def _become_real(here: Path, name: str, words: list[str]) -> int:
    own = here / "libexec" / name
    folders = [folder for folder in os.get_exec_path() if Path(folder) != here / "bin"]
    program = str(own) if own.exists() else shutil.which(name, path=os.pathsep.join(folders))
    if program is None:
        sys.stderr.write(f"{name}: neither this image nor the verifier kit has the real program\n")
        return _NOT_FOUND
    return os.execv(program, [name, *words])


if __name__ == "__main__":
    sys.exit(main(sys.argv))
