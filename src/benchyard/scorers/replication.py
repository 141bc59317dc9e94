"""Answers to ReplicationBench papers and tasks: numbers within their tolerances."""

from typing import ClassVar

from benchyard.scorers.answers import AnswerConfig, GradedAnswer, Grader
from benchyard.scorers.graders import replication


class ReplicationConfig(AnswerConfig):
    """What `expected` has is told by `graders/replication`."""

    grader: ClassVar[Grader] = replication


class ReplicationScorer(GradedAnswer):
    """Grades by `graders/replication`."""

    Config = ReplicationConfig
