"""`benchyard job`: agents on benchmarks, carried to the end by the server."""
