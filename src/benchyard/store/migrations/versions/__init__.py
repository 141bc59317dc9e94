"""Migrations: a file per change of the schema."""
