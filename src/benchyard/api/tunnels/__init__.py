"""HTTP into devboxes: requests to a tunnel do not reach the API; they are passed to a port inside."""
