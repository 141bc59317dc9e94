"""One module per noun of a server: its verbs, and objects of it."""
