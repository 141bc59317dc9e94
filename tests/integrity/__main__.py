"""`python -m tests.integrity [--write] [--short]`: try every attack, and show or write the tables."""

import sys
import tempfile
from pathlib import Path

from benchyard.testing.server import RunningServer
from tests.integrity import page
from tests.integrity.attacks import ATTACKS
from tests.integrity.graders import apart
from tests.integrity.matrix import cases, rows
from tests.integrity.yard import opened


def main() -> None:
    """Run the whole product of attacks, graders and modes."""
    within = [(attack, apart()) for attack in ATTACKS if attack.within]
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
        RunningServer(Path(folder) / "data") as server,
        opened(server) as yard,
    ):
        tables = {
            page.ATTACKS: rows(yard, cases(short="--short" in sys.argv)),
            page.APART: rows(yard, within, naive=False),
        }
    for name, found in tables.items():
        if "--write" in sys.argv:
            page.write(name, found)
        sys.stdout.write("\n".join(row.line for row in found) + "\n\n")


if __name__ == "__main__":
    main()
