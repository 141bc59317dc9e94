"""Calls of models on their way: let in, sent upstream with the real key, answered and counted."""
