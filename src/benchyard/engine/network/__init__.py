"""What devboxes reach: policies, allow-lists, and doors to models and HTTP APIs."""
