"""Scores read from the output of a scorer, or from its exit status."""

import re

from benchyard.errors import ScorerFailed
from benchyard.scorers.base import MOST_OUTPUT_BYTES, RoomResult

_NUMBER = re.compile(rb"(?:score[ \t]*=[ \t]*)?([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")
_WANTED = "the last line that a scorer prints must be a number from 0 to 1, such as `0.7` or `score=0.7`"
_LONGEST_LINE = 1000
_SHOWN = 80
_MOST_ERROR_BYTES = MOST_OUTPUT_BYTES // 4
"""Most bytes of standard error in the kept output: the score is on the other stream."""


def parse(stdout: bytes) -> float:
    """Return the score in the last line that is not empty; raises ScorerFailed with that line.

    Only the end of a long output is needed, as `RoomResult.stdout` has it.
    """
    lines = [stripped for line in stdout.splitlines() if (stripped := line.strip())]
    if not lines:
        raise ScorerFailed(f"the scorer printed nothing; {_WANTED}")
    line = lines[-1]
    if len(line) > _LONGEST_LINE or not (match := _NUMBER.fullmatch(line)):
        raise ScorerFailed(f"the scorer's last line is {quote(line)}; {_WANTED}")
    score = float(match[1])
    if not 0 <= score <= 1:
        raise ScorerFailed(f"the scorer's last line is {quote(line)}, which is not from 0 to 1; {_WANTED}")
    return abs(score)


def from_output(ran: RoomResult) -> float:
    """Return the score that a program printed; its exit status does not matter."""
    require_end(ran)
    if ran.truncated:
        raise failure("the scorer printed more than is kept, so that its last line is lost", ran)
    try:
        return parse(ran.stdout)
    except ScorerFailed as error:
        said = ran.stderr.strip().splitlines()[-1:]
        more = f" (on standard error: {quote(said[0])})" if said else ""
        raise failure(f"{error.message}{more}", ran) from error


def from_status(ran: RoomResult) -> float:
    """Return 1.0 for a program that exited with 0, else 0.0."""
    require_end(ran)
    return 1.0 if ran.exit_status == 0 else 0.0


def require_end(ran: RoomResult) -> None:
    """Raise ScorerFailed for a program that did not end by itself."""
    if ran.timed_out:
        raise failure("the scorer took longer than `scorer_timeout_sec` of the scenario and was killed", ran)
    if ran.signal is not None:
        raise failure(f"the scorer was ended by signal {ran.signal}", ran)


def failure(message: str, ran: RoomResult) -> ScorerFailed:
    """Return an error that keeps the output that led to it."""
    return ScorerFailed(message, output=output(ran))


def output(ran: RoomResult) -> str:
    """Return the output to keep: the end of standard error, then the end of standard output."""
    errors = ran.stderr[-_MOST_ERROR_BYTES:]
    if errors and not errors.endswith(b"\n"):
        errors += b"\n"
    kept = errors + ran.stdout[-(MOST_OUTPUT_BYTES - len(errors)) :]
    # Zero characters are valid UTF-8, but not every database stores them.
    return kept.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


def quote(line: bytes) -> str:
    """Make a line of hostile output short and printable."""
    text = line[: 4 * _SHOWN].decode(errors="replace")
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
