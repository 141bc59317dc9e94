"""Programs for rooms and functions for workers, of the standard library alone."""
