"""Contract suites that authors of extensions run against their own work."""
