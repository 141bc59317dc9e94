"""What a scenario has gathered when the work on it is over, before anything is frozen or graded."""

import logging

from benchyard.engine.runs.stages import Case
from benchyard.engine.setup import completed
from benchyard.engine.tools import Tools
from benchyard.errors import BenchyardError
from benchyard.hosts.host import ExecRequest

_log = logging.getLogger(__name__)


async def collect(tools: Tools, case: Case) -> None:
    """Run a scenario's collect commands in its devbox, in order; one that fails stops none of the others."""
    for index, each in enumerate(case.scenario.collect_commands or ()):
        request = ExecRequest(
            id=f"collect-{case.run.scorings}-{index}",
            command=each.command,
            cwd=case.working_directory,
            user=each.user or case.user,
            timeout_seconds=each.timeout_sec,
            strict=case.isolation != "live",
        )
        try:
            await completed(tools, await tools.host.exec(case.devbox.id, request))
        except BenchyardError as error:
            _log.warning("a collect command of run %s could not run: %s", case.run.id, error.message)
