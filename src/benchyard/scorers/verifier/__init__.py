"""The verifier kit: what test scripts of tasks fetch from the internet."""
