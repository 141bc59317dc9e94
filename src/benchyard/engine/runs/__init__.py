"""Scenario runs and benchmark runs, and their scoring."""
