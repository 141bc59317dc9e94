"""`benchyard run` and `benchyard trial`: what became of single attempts."""
