"""The four dialects the scripted model speaks."""
