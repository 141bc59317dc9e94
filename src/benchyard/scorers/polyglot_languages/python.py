"""Python: pytest."""

import re
import sys

from benchyard.hosts.kits import Kits
from benchyard.scorers import packages, python_kit, pythons
from benchyard.scorers.polyglot_languages.base import Language, Tools

_PROGRAM = "import sys; del sys.path[0]; import pytest; sys.exit(pytest.console_main())"
_OF_PYTEST = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "exceptiongroup", "tomli")
_CUSTOM = ("sitecustomize", "usercustomize", "distutils", "asynchat", "asyncore", "imp", "smtpd")
"""Modules that some Pythons have or look for, and others do not."""
_PYTEST = ("pytest==8.3.5",)


class PythonLanguage(Language):
    """The image's pytest, or one over a Python of the server."""

    programs = ("python3",)
    # As the program `pytest` does: its modules are found before those of the working directory.
    command = f'"${{PYTHON:-python3}}" -c "{_PROGRAM}" -p no:cacheprovider --show-capture=no'
    passed = re.compile(rb"^=+ (?:\d+ \w+, )*\d+ passed(?:, \d+ \w+)* in [^\n]+=$", re.MULTILINE)
    complete = (re.compile(rb"^collected (\d{1,9}) items?", re.MULTILINE),)
    outcomes = re.compile(rb"\b(\d{1,9}) (?:passed|skipped|xfailed|xpassed|deselected)\b")
    skipped = re.compile(rb"^=+ (?:[^\n]*, )?(\d+) skipped[, ]", re.MULTILINE)
    sources = ("py",)
    reserved = (
        r"(?:.*/)?(?:test_[^/]*|[^/]*_test|conftest)\.py$"
        rf"|(?:{'|'.join(sorted({*sys.stdlib_module_names, *_OF_PYTEST, *_CUSTOM}))})(?:/|\.py$)"
    )

    async def of_server(self, kits: Kits) -> Tools:
        python = await pythons.choose(None)
        base = await python_kit.make(python, kits)
        environment = await packages.make(python, base, _PYTEST, kits)
        program = python_kit.program(environment.target)
        values = {"PYTHON": program, **python_kit.environment(base.target)}
        return Tools((base, environment), values, (f"Python {python.version} of the server",))
