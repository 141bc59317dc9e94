"""Devboxes: the driver contract (`base`), and one module or folder per driver."""
