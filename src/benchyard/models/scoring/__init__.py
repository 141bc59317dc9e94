"""What grades scenarios, and what solves them: files beside a scenario."""
