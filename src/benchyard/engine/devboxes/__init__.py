"""Devboxes for the API: create, fill, use, watch and end."""
