"""`benchyard run` and `benchyard trial`: results of single attempts."""
