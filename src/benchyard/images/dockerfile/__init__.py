"""Dockerfiles: parsing, the images they name, and rewriting for old engines."""
