"""Devboxes for tests: the process driver without Landlock, which fails on request.

Options: `fail_start`, `fail_exec`, `fail_find` (any text: the error's message; `fail_find` just makes `find`
return False), `start_delay` (seconds), `without` (capabilities to lack, separated by commas).
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from benchyard.devboxes.base import Capability, Command, DevboxSpec
from benchyard.devboxes.process.driver import ProcessDriver
from benchyard.errors import DevboxGone, StartFailed


class FakeDriver(ProcessDriver):
    """The process driver without Landlock, and with switches to provoke failures."""

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        super().__init__(folder, options)
        lacking = {Capability(name) for name in options.get("without", "").split(",") if name}
        self.capabilities = type(self).capabilities - lacking

    @staticmethod
    def has_walls() -> bool:
        return False

    @classmethod
    def notice(cls) -> str:
        return "the fake driver isolates nothing at all; it is made for tests"

    async def start(self, spec: DevboxSpec) -> None:
        await asyncio.sleep(float(self.options.get("start_delay", "0")))
        if reason := self.options.get("fail_start"):
            raise StartFailed(reason, step="fake")
        await super().start(spec)

    async def find(self, spec: DevboxSpec) -> bool:
        return not self.options.get("fail_find") and await super().find(spec)

    async def exec(self, devbox_id: str, command: Command) -> None:
        if reason := self.options.get("fail_exec"):
            raise DevboxGone(reason)
        await super().exec(devbox_id, command)
