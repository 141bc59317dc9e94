"""WHO: the programs under test; the agent contract (`base`), and one module per agent."""
