"""A driver of your own: the usual one, with a log of every command that is started.

A package with it is installed beside the server, and names it in its `pyproject.toml`:

    [project.entry-points."benchyard.devboxes"]
    audited = "custom_driver:AuditedDriver"

Then `benchyard serve --driver audited --driver-option audit=/var/log/commands` holds devboxes with it. What a
driver has to do is in `benchyard/devboxes/base.py`, and `benchyard.testing.contracts` has the tests for it.
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path

from benchyard.devboxes.base import Command
from benchyard.devboxes.native.driver import NativeDriver


class AuditedDriver(NativeDriver):
    """Holds devboxes as the native driver does; each command has its line in a log."""

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        own = {name: value for name, value in options.items() if name != "audit"}
        super().__init__(folder, own)
        self._log = Path(options.get("audit") or folder.with_name("audit.log"))

    async def exec(self, devbox_id: str, command: Command) -> None:
        """Note the command, and start it."""
        line = {"time": time.time(), "devbox": devbox_id, "command": command.id, "argv": [*command.argv]}
        with self._log.open("a") as file:
            file.write(json.dumps(line) + "\n")
        await super().exec(devbox_id, command)
