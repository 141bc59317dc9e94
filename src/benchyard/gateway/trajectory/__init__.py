"""Trajectories built from calls: sorted into conversations, split into steps, and written as ATIF."""
