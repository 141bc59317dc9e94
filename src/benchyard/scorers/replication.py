"""Answers to ReplicationBench papers and tasks: numbers within their tolerances."""

from typing import ClassVar

from benchyard.scorers.answers import AnswerConfig, GradedAnswer, Grader
from benchyard.scorers.graders import replication


class ReplicationConfig(AnswerConfig):
    """Fields of a `replication_scorer`; `graders/replication` defines `expected`."""

    grader: ClassVar[Grader] = replication


class ReplicationScorer(GradedAnswer):
    """Grades by `graders/replication`."""

    Config = ReplicationConfig
