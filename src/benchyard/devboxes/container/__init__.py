"""Devboxes held by a container engine: the driver `container` and its own parts."""
