"""Runs the program that is graded as a process of its own, and compares what it prints here."""

import ctypes
import os
import subprocess
import sys

ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # where all have one user, it cannot look into this process
GRADED = os.environ["BENCHYARD_GRADED"]  # runs the code as the user whose work it is, who cannot read this

for name in ("Ada", "you there"):
    ran = subprocess.run(
        [GRADED, "--seconds", "20", "python3", "-I", "greet.py", name], capture_output=True, text=True, timeout=20, check=False
    )
    if ran.stdout != f"Hello, {name}!\n":
        sys.exit(f"for {name!r} it prints {ran.stdout[:200]!r}")
