"""Answers to ARC-AGI tasks: two attempts at each test input."""

from typing import ClassVar

from benchyard.scorers.answers import AnswerConfig, GradedAnswer, Grader
from benchyard.scorers.graders import arc


class ArcConfig(AnswerConfig):
    """Fields of an `arc_scorer`; `graders/arc` defines `expected`."""

    grader: ClassVar[Grader] = arc


class ArcScorer(GradedAnswer):
    """Grades by `graders/arc`."""

    Config = ArcConfig
