"""Trajectories made of calls: how each dialect tells a conversation (`reader`), and what becomes of it."""
