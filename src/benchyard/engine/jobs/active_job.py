"""An unfinished job in memory: its waiting, running and ended trials."""

import heapq
import random
import time
from collections import deque
from collections.abc import Iterable

from benchyard.engine.jobs.plan import Place, places
from benchyard.models.jobs import Job
from benchyard.models.trials import Trial

_FIRST_DELAY_SECONDS = 1.0
_LONGEST_DELAY_SECONDS = 60.0


class ActiveJob:
    """The newest trial of each place in a job's plan."""

    def __init__(self, job: Job, trials: Iterable[Trial]) -> None:
        self.job = job
        self.trials: dict[Place, Trial] = {}
        for trial in trials:
            known = self.trials.get(trial.place)
            if known is None or known.retry < trial.retry:
                self.trials[trial.place] = trial
        self._left = [0] * len(job.spec.agent_configs)
        for trial in self.trials.values():
            self._left[trial.agent] += not trial.has_ended
        self.running: set[Place] = set()
        self.last_start = 0.0
        # Trials with unreadable records are skipped: the others go on, and the records stay as they are.
        left = [place for place in places(job) if place in self.trials and not self.trials[place].has_ended]
        # Trials begun by an earlier server go first.
        self._ready = deque(sorted(left, key=lambda place: self.trials[place].start_time_ms is None))
        self._later: list[tuple[float, Place]] = []

    @property
    def is_over(self) -> bool:
        """Tell whether every place has its result."""
        return not (self.running or self._ready or self._later)

    def is_agent_over(self, agent: int) -> bool:
        """Tell whether all trials of one agent have ended."""
        return not self._left[agent]

    def of_agent(self, agent: int) -> list[Trial]:
        """Return the newest trials of one agent."""
        return [trial for place, trial in self.trials.items() if place[0] == agent]

    def next(self) -> Trial | None:
        """Return the trial that would begin next; None if none may begin now."""
        if len(self.running) >= self.job.orchestrator.concurrency:
            return None
        while self._later and self._later[0][0] <= time.monotonic():
            self._ready.append(heapq.heappop(self._later)[1])
        return self.trials[self._ready[0]] if self._ready else None

    def begin(self, trial: Trial) -> None:
        """Note that the next trial begins."""
        self._ready.popleft()
        self.running.add(trial.place)
        self.last_start = time.monotonic()

    def put(self, trial: Trial) -> None:
        """Replace the trial of a place."""
        self._left[trial.agent] += self.trials[trial.place].has_ended - trial.has_ended
        self.trials[trial.place] = trial

    def done(self, trial: Trial) -> None:
        """Note that a trial does not run any more."""
        self.running.discard(trial.place)

    def again(self, trial: Trial) -> None:
        """Queue the trial that replaces a lost one, after a delay that grows with each loss."""
        self.put(trial)
        delay = min(_LONGEST_DELAY_SECONDS, _FIRST_DELAY_SECONDS * 2 ** max(0, trial.n_lost - 1))
        # Jitter, so that trials lost together do not return together.
        heapq.heappush(self._later, (time.monotonic() + delay * random.uniform(0.5, 1.5), trial.place))  # noqa: S311

    def wait_seconds(self) -> float | None:
        """Return the seconds until a delayed retry may start; None if there is none."""
        return max(0.0, self._later[0][0] - time.monotonic()) if self._later else None
