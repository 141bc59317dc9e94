"""Judgements as text for people, apart from what was found without a model."""

from collections import Counter
from collections.abc import Iterator, Sequence

from benchyard.cli.render import command_text, indented
from benchyard.client.plain_text import clean
from benchyard.models.job_plans import count_text
from benchyard.models.reports.judgements import (
    CATEGORY_LABEL,
    FAILURE_CATEGORIES,
    JudgeAgreement,
    JudgementView,
    JudgeRunView,
)

OPINION = "a model's opinion"


def run_text(run: JudgeRunView) -> str:
    """Return what a judge run has done, on one line."""
    counts = run.counts
    parts = [f"{clean(run.model)}: {counts.total} of {count_text(run.n_chosen, 'trial')}"]
    told = {
        "known already": counts.known,
        "without a valid answer": counts.refused,
        "without an answer": counts.unanswered,
        "left out": run.n_left_out,
        "explained by signals": run.n_explained,
        "not read yet": run.n_unread,
    }
    parts += [f"{count} {what}" for what, count in told.items() if count]
    cost = run.usage.cost_usd
    tokens = run.usage.input_tokens + run.usage.output_tokens
    parts.append(f"{tokens:,} tokens" + (f", ${cost:.4f}" if cost is not None else ", cost not known"))
    if run.state != "completed":
        parts.append(run.state)
    if run.note:
        parts.append(clean(run.note))
    return "; ".join(parts)


def summary_lines(judgements: Sequence[JudgementView]) -> Iterator[str]:
    """Yield the categories with their numbers of trials, the most frequent first."""
    for model in dict.fromkeys(each.model for each in judgements):
        own = [each for each in judgements if each.model == model]
        yield f"{clean(model)}, {OPINION}, on {count_text(len(own), 'trial')}:"
        for category, count in Counter(each.category for each in own).most_common():
            yield from _detail(f"{count} {clean(category)}: {FAILURE_CATEGORIES.get(category, '')}")


def judgement_lines(judgement: JudgementView) -> Iterator[str]:
    """Yield one judgement with its citations."""
    stale = "  (scored again since)" if judgement.is_stale else ""
    place = f"{clean(judgement.scenario_name)} #{judgement.attempt}"
    yield f"{place}  {clean(judgement.category)}, says {clean(judgement.model)}{stale}"
    yield from _detail(clean(judgement.explanation))
    for each in judgement.citations:
        yield from _detail(f'step {each.step}: "{clean(each.quote)}"')
    if judgement.n_false_citations:
        told = count_text(judgement.n_false_citations, "quote")
        yield from _detail(f"! {told} not found in the steps, and left out: do not rely on this judgement")
    elif not judgement.citations:
        yield from _detail("! it cites no step: do not rely on this judgement")
    step = f" --step {judgement.critical_step}" if judgement.critical_step is not None else ""
    verb = "steps" if step else "show"
    yield from command_text(f"benchyard trial {verb} {judgement.trial_id}{step}", "  ")


def agreement_lines(agreement: Sequence[JudgeAgreement]) -> Iterator[str]:
    """Yield how far people agree with each judge."""
    if not agreement:
        yield f"agreement with people: not known; give trials a label named {CATEGORY_LABEL}"
    for each in agreement:
        yield f"agreement of {clean(each.model)} with people's label {clean(each.label)}:"
        if each.agreement is not None and each.agreement_low is not None and each.agreement_high is not None:
            share = f"{each.n_agree} of {each.n} ({each.agreement:.0%}, {each.agreement_low:.0%} to "
            yield from _detail(f"{share}{each.agreement_high:.0%}); Cohen's kappa {_kappa(each)}")
        left = {"people disagree": each.n_disputed, "other values": each.n_other_values}
        told = ", ".join(f"{count} ({why})" for why, count in left.items() if count)
        if told:
            yield from _detail(f"labelled trials left out: {told}")
        for one in each.disagreements:
            yield from _detail(f"{one.trial_id}: judge {clean(one.judge)}, people {clean(one.people)}")
        if each.note:
            yield from _detail(each.note)


def _kappa(agreement: JudgeAgreement) -> str:
    if agreement.kappa is None:
        return "not defined"
    if agreement.kappa_low is None or agreement.kappa_high is None:
        return f"{agreement.kappa:.2f}"
    return f"{agreement.kappa:.2f} ({agreement.kappa_low:.2f} to {agreement.kappa_high:.2f})"


def _detail(text: str) -> list[str]:
    first, *rest = indented(text, 4)
    return [f"  {first}", *rest]
