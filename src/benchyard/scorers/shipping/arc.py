"""The grader of ARC-AGI-2."""

from functools import partial

from benchyard.scorers.graders import arc
from benchyard.scorers.shipping_graders import graded

shipped = partial(graded, arc)
