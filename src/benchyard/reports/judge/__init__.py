"""Judgements by a model: choice of trials, evidence, agreement with people. Pure."""
