"""Shell scripts of scorers, run by a shell that reads no other file."""

from collections.abc import Mapping
from typing import Any

from benchyard.errors import ScorerFailed
from benchyard.scorers import base, score
from benchyard.scorers.base import ProgramOptions, Room, RoomResult, ScoringContext, Verdict
from benchyard.scorers.kits import start_tools

BASH = "/bin/bash"
SH = "/bin/sh"
_COMMANDS = {BASH: (BASH, "--noprofile", "--norc"), SH: (SH,)}
_NOT_FOUND = 127


async def run(
    room: Room, text: str, about: ScoringContext, params: Mapping[str, Any] | None = None
) -> tuple[RoomResult, dict[str, str]]:
    """Run a script in the working directory; return its result, and facts about the shell to keep."""
    environment = await base.scorer_environment(room, about, params)
    path = await room.keep("scorer.sh", text.encode())
    if room.tools is not None:
        own = {**environment, "BASH_ENV": f"{room.tools}/{start_tools.ENVIRONMENT}"}
        shell = f"{room.tools}/{start_tools.SHELL}"
        return await room.run((shell, *_COMMANDS[BASH][1:], path), ProgramOptions(env=own)), {
            "shell": "the start's own"
        }
    ran = await room.run((*_COMMANDS[BASH], path), ProgramOptions(env=environment))
    if await _exists(room, BASH, ran):
        return ran, {}
    ran = await room.run((*_COMMANDS[SH], path), ProgramOptions(env=environment))
    if await _exists(room, SH, ran):
        return ran, {"shell": SH}
    raise ScorerFailed(
        f"the image has neither {BASH} nor {SH}, one of which this scorer needs; use an image with a shell, "
        "or a python_script_scorer, which brings all it needs",
        output=score.output(ran),
    )


async def _exists(room: Room, shell: str, ran: RoomResult) -> bool:
    """Tell whether the shell exists; a script may exit with the status of a missing shell."""
    if ran.exit_status != _NOT_FOUND or ran.timed_out:
        return True
    tried = await room.run((*_COMMANDS[shell], "-c", ":"))
    return tried.exit_status != _NOT_FOUND


async def printed_verdict(
    room: Room, text: str, about: ScoringContext, params: Mapping[str, Any] | None = None
) -> Verdict:
    """Return the verdict of a script that prints its score."""
    ran, facts = await run(room, text, about, params)
    return Verdict(score.from_output(ran), score.output(ran), facts)


async def status_verdict(room: Room, text: str, about: ScoringContext) -> Verdict:
    """Return the verdict of a command by its exit status."""
    ran, facts = await run(room, text, about)
    return Verdict(score.from_status(ran), score.output(ran), facts)
