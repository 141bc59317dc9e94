"""HTTP into devboxes: requests to a tunnel never reach the API, they are passed on to a port inside."""
