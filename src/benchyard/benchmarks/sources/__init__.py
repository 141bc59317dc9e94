"""Sources of the data of public benchmarks: the hub, git, or a copy on this machine."""
