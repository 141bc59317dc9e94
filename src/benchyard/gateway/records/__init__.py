"""Calls as they are kept: one database file per grant, written, read and priced."""
