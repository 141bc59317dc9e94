"""The gateway, a devbox's only door to models: swaps keys, meters, records, and outlives the server."""
