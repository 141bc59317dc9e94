"""Trajectories made of calls: sorted into conversations, told in steps, and written as ATIF."""
