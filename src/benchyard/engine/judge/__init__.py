"""Judges: models that are asked, through the gateway, why trials failed."""
