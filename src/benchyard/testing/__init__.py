"""Tools for tests: contract suites that authors of extensions run, and a real server."""
