"""Agreement of judges with people's labels: raw, and beyond what chance alone gives. Pure."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchyard.models.reports.judgements import (
    FAILURE_CATEGORIES,
    Disagreement,
    JudgeAgreement,
    JudgementView,
)
from benchyard.models.results.annotations import PersonLabel
from benchyard.reports.statistics.means import Z_95, wilson

LEAST_FOR_INTERVAL = 10
"""Number of trials below which the large-sample interval of kappa means nothing."""
FEW_TRIALS = 50
_MOST_DISAGREEMENTS = 20
_DIGITS = 9


@dataclass(frozen=True)
class Kappa:
    """Cohen's kappa, with its 95 % interval where there are enough pairs."""

    value: float
    low: float | None = None
    high: float | None = None


def cohens_kappa(pairs: Sequence[tuple[str, str]]) -> Kappa | None:
    """Return Cohen's kappa of two raters; None where both always say the same one thing, or without pairs.

    The standard error is that of Fleiss, Cohen and Everitt (1969) for a kappa that is not 0.
    """
    count = len(pairs)
    if not count:
        return None
    cells = {pair: number / count for pair, number in Counter(pairs).items()}
    rows, columns = defaultdict[str, float](float), defaultdict[str, float](float)
    for (first, second), share in cells.items():
        rows[first] += share
        columns[second] += share
    by_chance = sum(share * columns[name] for name, share in rows.items() if name in columns)
    if math.isclose(by_chance, 1.0):
        return None
    agreed = sum(share for (first, second), share in cells.items() if first == second)
    value = (agreed - by_chance) / (1 - by_chance)
    if count < LEAST_FOR_INTERVAL:
        return Kappa(round(value, _DIGITS))
    same = sum(
        share * (1 - by_chance - (rows[first] + columns[first]) * (1 - agreed)) ** 2
        for (first, second), share in cells.items()
        if first == second
    )
    other = sum(
        share * (columns[first] + rows[second]) ** 2
        for (first, second), share in cells.items()
        if first != second
    )
    spread = same + (1 - agreed) ** 2 * other - (agreed * by_chance - 2 * by_chance + agreed) ** 2
    error = math.sqrt(max(0.0, spread) / count) / (1 - by_chance) ** 2
    low, high = max(-1.0, value - Z_95 * error), min(1.0, value + Z_95 * error)
    return Kappa(round(value, _DIGITS), round(low, _DIGITS), round(high, _DIGITS))


def agreements(
    judgements: Iterable[JudgementView], labels: Mapping[str, Sequence[PersonLabel]], name: str
) -> list[JudgeAgreement]:
    """Return the agreement of each judge with the labels of this name, by trial.

    Stale judgements do not count; of several people, the majority counts.
    """
    by_judge: dict[tuple[str, str, str], list[JudgementView]] = defaultdict(list)
    for each in judgements:
        if not each.is_stale:
            by_judge[each.provider, each.model, each.instructions].append(each)
    found = (_agreement(judge, rows, labels, name) for judge, rows in by_judge.items())
    return [each for each in found if each is not None]


def _agreement(
    judge: tuple[str, str, str],
    rows: Sequence[JudgementView],
    labels: Mapping[str, Sequence[PersonLabel]],
    name: str,
) -> JudgeAgreement | None:
    pairs: list[tuple[str, str, str]] = []
    n_disputed = n_other = 0
    for each in rows:
        values = [label.value for label in labels.get(each.trial_id, ()) if label.name == name]
        if not values:
            continue
        known = [value for value in values if value in FAILURE_CATEGORIES]
        if not known:
            n_other += 1
        elif (said := _majority(known)) is None:
            n_disputed += 1
        else:
            pairs.append((each.trial_id, each.category, said))
    count = len(pairs)
    if not count and not n_disputed and not n_other:
        return None
    n_agree = sum(judged == said for _, judged, said in pairs)
    low, high = wilson(n_agree / count, count) if count else (None, None)
    kappa = cohens_kappa([(judged, said) for _, judged, said in pairs])
    provider, model, instructions = judge
    return JudgeAgreement(
        provider=provider,
        model=model,
        instructions=instructions,
        label=name,
        n=count,
        n_agree=n_agree,
        agreement=n_agree / count if count else None,
        agreement_low=low,
        agreement_high=high,
        kappa=kappa.value if kappa else None,
        kappa_low=kappa.low if kappa else None,
        kappa_high=kappa.high if kappa else None,
        n_disputed=n_disputed,
        n_other_values=n_other,
        disagreements=[
            Disagreement(trial_id=id, judge=judged, people=said)
            for id, judged, said in pairs
            if judged != said
        ][:_MOST_DISAGREEMENTS],
        note=_note(count, kappa),
    )


def _majority(values: Sequence[str]) -> str | None:
    """Return what more than half of the people say; None without a majority."""
    value, count = Counter(values).most_common(1)[0]
    return value if 2 * count > len(values) else None


def _note(count: int, kappa: Kappa | None) -> str | None:
    if not count:
        return "no trial has both a judgement and a label that can be compared with it"
    if kappa is None:
        return "judge and people say one and the same thing of all of them: kappa is not defined"
    if count < LEAST_FOR_INTERVAL:
        return f"{count} labelled trials are too few for an interval of kappa; label at least {FEW_TRIALS}"
    if count < FEW_TRIALS:
        return f"{count} labelled trials are few: the interval of kappa is rough"
    return None
