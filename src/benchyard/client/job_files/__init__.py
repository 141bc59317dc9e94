"""Files of jobs on this machine: the logs of trials, and results in Harbor's layout."""
