"""The server's side of devboxes that have a first process of ours: parts of several drivers."""
