"""What runs beside and inside a native devbox: standard library only, no third-party imports."""
