"""Models of what is noted and read of results."""
