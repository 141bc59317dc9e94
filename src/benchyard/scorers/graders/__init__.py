"""Grading of answers that are texts: one module for each question set, and nothing else for its scorer.

`NAME.py` makes the type `NAME_scorer`. It defines what a `Grader` of `scorers/answers.py` has, and uses only
the standard library: a worker runs it, and an exported task has its source.
"""
