"""Stands in for `uv` if the server lacks the requested Python: names the nearest one instead."""

import os
import re
import sys
from pathlib import Path

_NAMED = re.compile(r"(--python=|-p)?((?:cpython-?)?3\.\d+(?:\.\d+)?)")


def main(argv: list[str]) -> int:
    """Become the real program, with the kit's Python in place of every requested version."""
    here = Path(argv[0]).absolute().parent.parent
    python = f"{here}/bin/python-of-kit"
    words = list(argv[1:])
    for at, word in enumerate(words):
        match = _NAMED.fullmatch(word)
        is_value = at > 0 and words[at - 1] in ("-p", "--python")
        if match and (match[1] or is_value):
            words[at] = (match[1] or "") + python
    return os.execv(here / "libexec" / Path(argv[0]).name, [argv[0], *words])


if __name__ == "__main__":
    sys.exit(main(sys.argv))
