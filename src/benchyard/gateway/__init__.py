"""The devbox's only door to models: swaps keys, meters, records; a process that outlives the server."""
