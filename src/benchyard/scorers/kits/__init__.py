"""Folders of the host that scorers need, shown read-only in the room."""
