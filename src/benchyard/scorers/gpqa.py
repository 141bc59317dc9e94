"""Answers to GPQA questions: the letter of an option."""

from typing import ClassVar

from benchyard.scorers.answers import AnswerConfig, GradedAnswer, Grader
from benchyard.scorers.graders import gpqa


class GpqaConfig(AnswerConfig):
    """Fields of a `gpqa_scorer`; `graders/gpqa` defines `expected`."""

    grader: ClassVar[Grader] = gpqa


class GpqaScorer(GradedAnswer):
    """Grades by `graders/gpqa`."""

    Config = GpqaConfig
