"""`benchyard devbox`: one module per verb that is more than a request."""
