"""Orchestrated jobs: planned, scheduled, carried to the end, and taken up again after a stop."""
