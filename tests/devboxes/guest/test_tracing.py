"""The filter that asks: where it cannot be installed, a devbox starts without it."""

import os
import subprocess
import sys

import pytest

from benchyard.devboxes.guest import seccomp, tracing

TWICE = """\
from benchyard.devboxes.guest import seccomp, syscalls, tracing
syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
print(tracing.listen(seccomp.asking_here()) is not None, tracing.listen(seccomp.asking_here()))
"""


@pytest.mark.skipif(not seccomp.asking_here(), reason="no filter is known for this processor")
def test_of_all_filters_only_one_can_ask() -> None:
    done = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True, check=True)
    assert done.stdout == "True None\n"


def test_no_filter_is_installed_for_a_processor_that_none_is_known_for() -> None:
    assert tracing.listen(b"") is None


def test_an_answer_that_fails_otherwise_is_reported() -> None:
    reader, writer = os.pipe()
    try:
        with pytest.raises(OSError, match="Inappropriate ioctl"):
            tracing.Tracing(reader, marks=False).answer()
    finally:
        os.close(reader)
        os.close(writer)
