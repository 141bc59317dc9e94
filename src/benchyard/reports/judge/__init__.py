"""Judgements by a model: choice of trials, evidence, answers and their checks, agreement with people. Pure."""
