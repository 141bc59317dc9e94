"""Worker processes with limits: they parse and grade content from agents, datasets and clients."""
