"""The escape suite: what code in a devbox tries in order to get out."""
