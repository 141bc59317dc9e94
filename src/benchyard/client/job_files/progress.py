"""Progress of writing a job's files; subclasses show it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from benchyard.client.job_files.results import TrialFolder

OnTrial = Callable[[TrialFolder], None]
"""Called with each trial whose files are written, or could not be fetched."""


def ignore_trial(trial: TrialFolder) -> None:
    """Ignore a trial."""


class TrialProgress:
    """Progress that is not shown; a subclass shows it."""

    def say(self, text: str) -> None:
        """Show a sentence, such as which of several jobs with the name is taken."""

    def trials(self, total: int, folder: Path) -> AbstractContextManager[OnTrial]:
        """Show the trials that are written below a folder in the block."""
        return nullcontext(ignore_trial)


UNSEEN = TrialProgress()
