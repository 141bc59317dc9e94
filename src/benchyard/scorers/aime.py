"""Answers to AIME problems: an integer from 0 to 999."""

from typing import ClassVar

from benchyard.scorers.answers import AnswerConfig, GradedAnswer, Grader
from benchyard.scorers.graders import aime


class AimeConfig(AnswerConfig):
    """Fields of an `aime_scorer`; `graders/aime` defines `expected`."""

    grader: ClassVar[Grader] = aime


class AimeScorer(GradedAnswer):
    """Grades by `graders/aime`."""

    Config = AimeConfig
