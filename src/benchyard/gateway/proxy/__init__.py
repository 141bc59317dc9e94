"""Proxy for calls of models: admits them, sends them upstream with the real key, records and counts them."""
