"""A trial from its beginning to its end."""

from benchyard.engine.jobs.failures import TrialFailed, of_error, of_next_round
from benchyard.engine.jobs.stages import begin_round, lost, provision, run_agent, score, set_up
from benchyard.engine.jobs.way import Way, scrubber
from benchyard.errors import BenchyardError, DevboxGone
from benchyard.models.trials import Trial, TrialState

_S = TrialState


async def run_trial(way: Way) -> Trial:
    """Carry a trial from wherever it is to its end: its score, or why there is none."""
    try:
        async with way.stage("provision", _S.PROVISIONING):
            await provision(way)
        while True:
            if not way.is_scored and (launch := way.launch()):
                async with way.stage("setup", _S.SETTING_UP):
                    await set_up(way, launch)
                async with way.stage("agent", _S.RUNNING):
                    await run_agent(way, launch)
            async with way.stage("scoring", _S.SCORING):
                result = await score(way)
            if not way.goes_on():
                return way.completed(result)
            await begin_round(way)
    except TrialFailed as failure:
        return way.failed(await _shown(way, failure))
    except DevboxGone as error:
        return way.failed(await _shown(way, await lost(way, error)))
    except (BenchyardError, OSError) as error:
        return way.failed(await _shown(way, of_error(error)))


async def _shown(way: Way, failure: TrialFailed) -> TrialFailed:
    """A failure for everybody who may see the job: whose it is, and without its secrets."""
    if way.round > 1:
        failure = of_next_round(failure)
    return TrialFailed(failure.kind, failure.name, (await scrubber(way)).text(failure.message))
