"""Runs the program that is graded as a process of its own, and compares what it prints here."""

import ctypes
import subprocess
import sys

libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)  # what is graded gains no rights,
libc.prctl(4, 0, 0, 0, 0)  # and cannot look into this process

for name in ("Ada", "you there"):
    ran = subprocess.run(
        ["python3", "-I", "greet.py", name], capture_output=True, text=True, timeout=20, check=False
    )
    if ran.stdout != f"Hello, {name}!\n":
        sys.exit(f"for {name!r} it prints {ran.stdout[:200]!r}")
