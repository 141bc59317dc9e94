"""Python: pytest."""

import re

from benchyard.hosts.kits import Kits
from benchyard.scorers import packages, python_kit, pythons
from benchyard.scorers.polyglot_languages.base import Language, Tools

_PYTEST = ("pytest==8.3.5",)


class PythonLanguage(Language):
    """The image's pytest, or one over a Python of the server."""

    programs = ("python3",)
    command = '"${PYTHON:-python3}" -m pytest -p no:cacheprovider'
    passed = re.compile(rb"^=+ (?:\d+ \w+, )*\d+ passed(?:, \d+ \w+)* in [^\n]+=$", re.MULTILINE)

    async def of_server(self, kits: Kits) -> Tools:
        python = await pythons.choose(None)
        base = await python_kit.make(python, kits)
        environment = await packages.make(python, base, _PYTEST, kits)
        program = python_kit.program(environment.target)
        values = {"PYTHON": program, **python_kit.environment(base.target)}
        return Tools((base, environment), values, (f"Python {python.version} of the server",))
