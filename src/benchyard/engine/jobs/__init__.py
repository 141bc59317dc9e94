"""Orchestrated jobs: planned, scheduled, run to their end, and resumed after a stop."""
