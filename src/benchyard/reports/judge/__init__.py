"""Judgements by a model: choice of trials, evidence, checked answers, agreement with people. Pure."""
