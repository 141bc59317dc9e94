"""Contract suites: the duties of every agent, scorer and driver, as tests."""
