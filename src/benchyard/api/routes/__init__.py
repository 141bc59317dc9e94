"""One file per noun; each has a `router`, and the folder is the list."""
