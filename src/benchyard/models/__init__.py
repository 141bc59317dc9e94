"""Definitions of the nouns, each shared by wire, store and client."""
