"""Results of writing a job's files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TrialFolder:
    """A trial, and the folder with its files."""

    trial_id: str
    folder: Path
    problem: str | None = None
    """Reason why files are missing; None for a complete folder."""


@dataclass(frozen=True)
class JobFolder:
    """A folder with the files of a job's trials."""

    job_id: str
    folder: Path
    trials: Sequence[TrialFolder]

    @property
    def incomplete(self) -> list[TrialFolder]:
        """Return the trials of which files are missing, each with the reason."""
        return [each for each in self.trials if each.problem is not None]
