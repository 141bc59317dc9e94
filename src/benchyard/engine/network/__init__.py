"""Network of devboxes: policies, allow-lists, and doors to models and HTTP APIs."""
