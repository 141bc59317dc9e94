"""Persistent data: records in a database, contents of objects in a folder."""
