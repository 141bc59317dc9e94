"""Bases of devboxes: images, blueprints and their builds."""
