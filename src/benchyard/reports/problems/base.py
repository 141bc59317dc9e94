"""The contract of signals: from the facts of one trial to findings, or to None if the facts cannot tell."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from benchyard.reports.problems.facts import TrialFacts

MOST_STEPS = 20
MOST_DETAIL = 200


@dataclass(frozen=True)
class SignalFinding:
    """A place where a signal was found."""

    detail: str
    """The command, file, host or message that it rests on."""
    steps: Sequence[int] = ()
    """Numbers of the steps that it rests on."""


class ProblemSignal(ABC):
    """A sign of a problem, found without a model."""

    summary: ClassVar[str]
    """A sentence about the finding."""
    helps: ClassVar[str]
    """The usual remedy: a setting, a command or a page."""
    subject: ClassVar[Literal["trial", "scenario"]] = "trial"
    """Subject of the finding: a trial, or a scenario as a whole."""
    needs_peers: ClassVar[bool] = False
    """True if it needs the other trials at the scenario; it sees no trajectory then."""
    depends_on_outcome: ClassVar[bool] = False
    """True if it is made from the result itself, so that a correlation with failing would prove nothing."""

    @abstractmethod
    def find(self, facts: TrialFacts) -> Iterable[SignalFinding] | None:
        """Return the findings; empty if there are none, None if the facts cannot tell. Pure."""


def brief(text: str, most: int = MOST_DETAIL) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most else line[: most - 3] + "..."


def stopped_by(facts: TrialFacts, words: frozenset[str]) -> list[SignalFinding] | None:
    """Return the answers of the model that stopped for one of these reasons; None if no reason is known."""
    told = [(turn.stop, [turn.step]) for turn in facts.turns or () if turn.stop]
    if not told:
        told = [(call.stop, facts.steps_of([call])) for call in facts.calls or () if call.stop]
    if not told:
        return None
    return [
        SignalFinding(f"stopped by {brief(stop or '', 50)}", steps) for stop, steps in told if stop in words
    ]
