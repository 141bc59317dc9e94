"""The engine: what happens between a request and a devbox."""
