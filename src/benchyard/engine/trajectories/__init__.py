"""Trajectories of runs: kept, indexed, read by steps, and followed while an agent works."""
