"""Grading of answers that are texts: pure functions, each module a program of its own too.

A module here uses only the standard library, so that a folder of a task can carry the very same file. Run as
a program it takes what is expected, as a JSON file, and the answer's file, and prints the rewards as JSON.
"""
