"""Trajectories as the wire shows them."""
