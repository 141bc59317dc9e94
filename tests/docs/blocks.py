"""The code blocks of a page, as one script that runs them in order."""

import re
from pathlib import Path

BLOCK = re.compile(r"^```(bash|python) run\n(.*?)^```$", re.M | re.S)


def script(page: Path, folder: Path) -> str:
    """A bash script of the runnable blocks, empty if there are none; variables live on from block to block.

    Python blocks are written into `folder` and run as programs of their own.
    """
    text = page.read_text()
    parts = []
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start()) + 2
        parts.append(f"echo '--- {page.name}:{line}' >&2")
        if block[1] == "bash":
            parts.append(block[2])
        else:
            program = folder / f"line_{line}.py"
            program.write_text(block[2])
            parts.append(f"python {program}")
    return "\n".join(["set -euo pipefail", *parts]) if parts else ""
