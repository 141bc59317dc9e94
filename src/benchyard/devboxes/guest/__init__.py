"""The processes beside and inside a devbox: standard library only, no third-party imports."""
