"""How the exercises of Aider's Polyglot benchmark are tested: one module per language, named after it."""
