"""Dockerfiles: read, searched for the images they name, and rewritten for old engines."""
