"""The escape suite: attempts of code in a devbox to get out."""
