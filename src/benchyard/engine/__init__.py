"""The engine: the work between a request and a devbox."""
