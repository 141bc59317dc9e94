"""Models of results: notes of people on trials, and the work that runs left."""
