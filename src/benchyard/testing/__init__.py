"""For tests: contract suites that authors of extensions run, a real server, a model that plays scripts."""
