"""Devboxes without walls: the driver `process` and its own parts."""
