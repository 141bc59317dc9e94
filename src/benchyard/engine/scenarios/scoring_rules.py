"""Scoring rules of a scenario: from its fields, or from metadata, which every client can set."""

import json
import posixpath
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic import ValidationError

from benchyard.errors import UsageError
from benchyard.models.scenarios import RULES, RULES_IN_METADATA, ScenarioOptions, ScoringContract

_WEIGHTS_OFF = 1e-6


def rules_from(metadata: Mapping[str, str], own: ScenarioOptions) -> dict[str, Any]:
    """Return the rules in metadata and fields together; fields win. Raises UsageError."""
    given = {
        field: _value(key, field, metadata[key])
        for key, field in RULES_IN_METADATA.items()
        if metadata.get(key)
    }
    given |= {name: getattr(own, name) for name in RULES if getattr(own, name) is not None}
    try:
        checked = ScenarioOptions.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{place}: {first['msg']}", field=place) from error
    found = checked.model_dump(exclude_none=True)
    for field in ("answer_paths", "answer_excludes"):
        for path in found.get(field, []):
            check_path(path, field)
    if checked.scoring_isolation == "answer" and not checked.answer_paths:
        raise UsageError(
            "scoring_isolation `answer` needs answer_paths: the files and folders that are the answer",
            field="answer_paths",
        )
    _check_rounds(checked)
    return found


def _check_rounds(rules: ScenarioOptions) -> None:
    steps = rules.steps or []
    if steps and (rules.tries or 1) > 1:
        raise UsageError("a scenario has either steps or several tries, not both", field="steps")
    if len({step.name for step in steps}) < len(steps):
        raise UsageError("each step needs a name of its own", field="steps")
    # Files of a step go into the working directory, which `system` takes over.
    chosen = rules.scoring_isolation
    is_prepared = any(step.setup or (step.files and chosen == "answer") for step in steps[1:])
    if is_prepared and chosen in ("answer", "system"):
        raise UsageError(
            f"scoring_isolation `{chosen}` grades on the disk as it was at the beginning, where what "
            "prepares a later step is missing; use `clean`",
            field="steps",
        )


def check_path(path: str, field: str) -> None:
    """Refuse an invalid path inside a devbox, or one with `..`; raises UsageError."""
    if not path or "\0" in path or len(path.encode(errors="surrogatepass")) > 4096:
        raise UsageError(f"{field}: a path has 1 to 4096 bytes and no NUL character", field=field)
    if ".." in path.split("/"):
        raise UsageError(f"{field}: {path[:200]!r} must not contain `..`", field=field)
    if posixpath.normpath(path).strip("/") in ("", "."):
        raise UsageError(f"{field}: {path[:200]!r} is everything; name what is meant", field=field)


def check_weights(contract: ScoringContract) -> None:
    """Refuse weights that do not add up to 1; raises UsageError."""
    total = sum(function.weight for function in contract.scoring_function_parameters)
    if abs(total - 1) > _WEIGHTS_OFF:
        raise UsageError(
            f"the weights of the scoring functions add up to {total:.6g}; they must add up to 1",
            field="scoring_contract",
        )


def _value(key: str, field: str, text: str) -> Any:
    if _is_text(ScenarioOptions.model_fields[field].annotation):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"metadata {key} must be JSON: {error}", field=f"metadata.{key}") from error


def _is_text(annotation: Any) -> bool:
    """Tell whether values of a type are texts, which metadata hold as they are; all others are JSON there."""
    if get_origin(annotation) is Literal:
        return all(isinstance(arg, str) for arg in get_args(annotation))
    if get_origin(annotation) in (list, dict):
        return False
    return annotation is str or any(_is_text(arg) for arg in get_args(annotation))
