"""Parts of a job's problems: those of one agent, or one signal. Pure."""

from benchyard.errors import UsageError
from benchyard.models.reports.problems import ProblemsView


def selected_problems(view: ProblemsView, agent: str | None, signal: str | None) -> ProblemsView:
    """Return the view of one agent, or of one signal; raises UsageError if there is no such."""
    found, groups = view.problems, view.groups
    if signal is not None:
        found = [each for each in found if each.signal == signal]
        if not found and signal not in view.known:
            known = ", ".join(sorted(view.known)) or "none"
            raise UsageError(f"nothing is known of a signal {signal!r} in this job; known are: {known}")
    if agent is None:
        return view.model_copy(update={"problems": found})
    labels = {row.agent: row.label for each in view.problems for row in each.agents}
    labels_of_groups = {label for each in view.groups for label in each.agents}
    wanted = {label for label in {*labels.values(), *labels_of_groups} if _is_meant(agent, label)}
    if not wanted:
        told = ", ".join(sorted({*labels.values(), *labels_of_groups})) or "none"
        raise UsageError(f"no agent with problems is called {agent!r}; there are: {told}")
    kept = []
    for each in found:
        rows = [row for row in each.agents if row.label in wanted and row.n_found]
        examples = [one for one in each.examples if labels.get(one.agent) in wanted]
        if rows:
            kept.append(each.model_copy(update={"agents": rows, "examples": examples}))
    groups = [each for each in groups if wanted & set(each.agents)]
    return view.model_copy(update={"problems": kept, "groups": groups, "n_groups": len(groups)})


def _is_meant(given: str, label: str) -> bool:
    name, _, model = label.partition(":")
    plain = name.partition("@")[0]
    return given in (label, name, plain, f"{plain}:{model}")
