"""Devboxes without walls: the driver `process`, and what is only its own."""
