"""How providers speak: the contract (`base`), and one module per dialect."""
