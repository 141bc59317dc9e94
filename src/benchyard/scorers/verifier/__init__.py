"""The verifier kit: files that test scripts of tasks would fetch from the internet."""
