"""Devboxes held by a container engine: the driver `container`, and what is only its own."""
