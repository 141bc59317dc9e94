"""A queue of jobs with priorities."""


class Jobs:
    """Jobs that wait; the smallest number is the most urgent."""

    def __init__(self):
        self._waiting = []

    def __len__(self):
        return len(self._waiting)

    def add(self, priority, job):
        """Let a job wait."""
        self._waiting.append((priority, job))

    def take(self):
        """The most urgent job, or None."""
        if not self._waiting:
            return None
        return self._waiting.pop()[-1]
