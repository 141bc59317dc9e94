"""Webhooks: signed events for addresses that operators allow, delivered at least once."""
