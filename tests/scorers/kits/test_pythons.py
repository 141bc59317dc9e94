"""The Pythons of this machine."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from benchyard.scorers.kits import pythons


def test_a_python_is_asked_once_and_again_when_it_is_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, program = tmp_path / "asked", tmp_path / "python3"
    program.write_text(f'#!/bin/sh\necho once >> {asked}\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    first = asyncio.run(pythons.choose(None))
    assert asyncio.run(pythons.choose(None)) == first
    assert asked.read_text().splitlines() == ["once"]
    os.utime(program, ns=(1, 1))
    assert asyncio.run(pythons.choose(None)) == first
    assert asked.read_text().splitlines() == ["once", "once"]
