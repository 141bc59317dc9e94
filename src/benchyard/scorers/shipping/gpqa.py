"""The grader of GPQA Diamond."""

from functools import partial

from benchyard.scorers.graders import gpqa
from benchyard.scorers.shipping_graders import graded

shipped = partial(graded, gpqa)
