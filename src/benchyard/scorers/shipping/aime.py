"""The grader of AIME."""

from functools import partial

from benchyard.scorers.graders import aime
from benchyard.scorers.shipping_graders import graded

shipped = partial(graded, aime)
