"""Problems of jobs: signals over the facts of trials, groups of failures, and what goes with failing."""
