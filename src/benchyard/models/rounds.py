"""Rounds: work and its score, several times in the same devbox; further tries, or the steps of a scenario."""

from typing import Literal

from pydantic import Field

from benchyard.models.base import Model

SetupCause = Literal["agent", "scenario", "machine"]
"""Whose failure it is that a step could not be made ready."""


class StepSetup(Model):
    """What a devbox is made ready with before a step is worked on."""

    files: str | None = None
    """The object that is unpacked into the working directory."""
    setup: str | None = None
    """The command that runs there then."""
    as_root: bool = False


class RoundScore(Model):
    """What one round scored."""

    number: int
    name: str | None = None
    """Of the step; tries have none."""
    score: float
    rewards: dict[str, float] = Field(default_factory=dict)


class NextRound(Model):
    """The round that is worked on now."""

    number: int
    name: str | None = None
    problem_statement: str
    """What is to be done in it: of a further try, what was said of the one before."""
    is_prepared: bool = True
    """Whether its devbox is ready for it."""
    failure: str | None = None
    """Why it could not be made ready; nothing comes of it then."""
    failure_cause: SetupCause | None = None
    """Whose failure that is: the agent's where its setup does not fail after the reference."""
