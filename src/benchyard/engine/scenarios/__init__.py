"""What is run: scenarios, the benchmarks they make up, and custom scorers."""
