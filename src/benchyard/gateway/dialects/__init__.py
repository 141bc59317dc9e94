"""Dialects of providers: the contract (`base`), and one module per dialect."""
