"""Checks that each request passes before its route: keys, rates and limits."""
