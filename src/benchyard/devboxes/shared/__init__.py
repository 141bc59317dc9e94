"""The server's side of devboxes that are held by a first process of ours: parts of several drivers."""
