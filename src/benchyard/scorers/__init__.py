"""HOW WELL: grades of what is in a devbox; the scorer contract (`base`), and one module per type."""
