"""Contract suites: what every agent, scorer and driver owes, as tests."""
