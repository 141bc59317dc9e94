"""Grading of answers that are texts: pure functions; each module is also a program of its own.

A module here uses only the standard library, so that a task's folder can contain the same file. Run as a
program, it takes a JSON file of the expected values and the answer's file, and prints the rewards as JSON.
"""
