"""Users' own agents: registered, installed once per version, found by name."""
