"""Models of webhooks and of their deliveries."""
