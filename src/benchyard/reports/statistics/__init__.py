"""Statistics of scores: pure functions of numbers, with the standard library only."""
