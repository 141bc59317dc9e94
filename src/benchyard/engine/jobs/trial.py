"""A trial from its beginning to its end."""

from benchyard.engine.jobs.failures import TrialFailed, failure_of_error, failure_of_next_round
from benchyard.engine.jobs.stages import begin_round, devbox_failure, provision, run_agent, score, set_up
from benchyard.engine.jobs.trial_context import TrialContext, trial_scrubber
from benchyard.errors import BenchyardError, DevboxGone
from benchyard.models.trials import Trial, TrialState

_S = TrialState


async def run_trial(context: TrialContext) -> Trial:
    """Run a trial from its present stage to its end; returns it with a score, or with the failure."""
    try:
        async with context.stage("provision", _S.PROVISIONING):
            await provision(context)
        while True:
            if not context.is_scored and (launch := context.launch()):
                async with context.stage("setup", _S.SETTING_UP):
                    await set_up(context, launch)
                async with context.stage("agent", _S.RUNNING):
                    await run_agent(context, launch)
            async with context.stage("scoring", _S.SCORING):
                result = await score(context)
            if not context.goes_on():
                return context.with_score(result)
            await begin_round(context)
    except TrialFailed as failure:
        return context.with_failure(await _public_failure(context, failure))
    except DevboxGone as error:
        return context.with_failure(await _public_failure(context, await devbox_failure(context, error)))
    except (BenchyardError, OSError) as error:
        return context.with_failure(await _public_failure(context, failure_of_error(error)))


async def _public_failure(context: TrialContext, failure: TrialFailed) -> TrialFailed:
    """Return a failure without secrets, with its cause in this round."""
    if context.round > 1:
        failure = failure_of_next_round(failure)
    return TrialFailed(failure.kind, failure.name, (await trial_scrubber(context)).text(failure.message))
