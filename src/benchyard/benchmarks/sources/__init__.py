"""Where the data of public benchmarks comes from: the hub, git, or a copy on this machine."""
