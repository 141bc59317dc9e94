"""The grader of ReplicationBench."""

from functools import partial

from benchyard.scorers.graders import replication
from benchyard.scorers.shipping_graders import graded

shipped = partial(graded, replication)
