"""What lasts: records in a database, contents of objects in a folder."""
