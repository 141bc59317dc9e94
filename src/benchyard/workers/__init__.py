"""Worker processes, bounded: what agents, datasets and clients wrote is parsed and graded in them."""
