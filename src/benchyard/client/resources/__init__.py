"""The operations on each noun of a server: one module per noun, with its verbs and objects."""
