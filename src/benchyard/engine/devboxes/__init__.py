"""Devboxes as the API sees them: made, filled, used, watched and ended."""
