"""Folders of tasks in Harbor's form, as benchmarks."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from benchyard.benchmarks import harbor_tasks
from benchyard.benchmarks.base import ITEM_KEY, Broken
from benchyard.benchmarks.harbor_tasks import HarborOptions
from benchyard.benchmarks.scenario_folder import Draft
from benchyard.errors import UsageError
from benchyard.models.scenarios import Isolation

MOST_TASKS = 20_000
_SHOWN = 3
_DEEPEST = 4
"""Below the folder that was named: sets keep their tasks in `tasks/`, or one folder per language or kind."""


def tasks_in(folder: Path) -> list[Path]:
    """The task folders in a folder, itself if it is one, in order of their names; raises UsageError."""
    if harbor_tasks.is_task(folder):
        return [folder]
    found = sorted(_below(folder, _DEEPEST), key=lambda path: path.relative_to(folder).parts)
    if not found:
        raise UsageError(f"{folder}: there is no task in it, that is no folder with a task.toml")
    if len(found) > MOST_TASKS:
        raise UsageError(f"{folder}: {len(found)} tasks are too many for a benchmark: {MOST_TASKS} at most")
    return found


def _below(folder: Path, depth: int) -> Iterator[Path]:
    for each in sorted(folder.iterdir()):
        if each.is_symlink() or not each.is_dir() or each.name.startswith("."):
            continue
        if harbor_tasks.is_task(each):
            yield each
        elif depth > 1:
            yield from _below(each, depth - 1)


def scenarios(
    set_name: str, folder: Path, work: Path, known: Mapping[str, Isolation] | None = None
) -> Iterator[Draft | Broken]:
    """The tasks of a folder as scenarios `SET/TASK`; `known` is how some must be graded, by their names."""
    return read(set_name, tasks_in(folder), work, known)


def read(
    set_name: str, tasks: Sequence[Path], work: Path, known: Mapping[str, Isolation] | None = None
) -> Iterator[Draft | Broken]:
    """These task folders as scenarios, in order."""
    seen: set[str] = set()
    for index, (path, item) in enumerate(zip(tasks, _items(tasks), strict=True)):
        if item in seen:
            yield Broken(item, f"{path}: another task of this set has the same name; rename its folder")
            continue
        seen.add(item)
        try:
            metadata = {ITEM_KEY: item}
            isolation = (known or {}).get(item)
            options = HarborOptions(work / str(index), isolation, metadata)
            yield harbor_tasks.read(path, f"{set_name}/{item}", options)
        except UsageError as error:
            yield Broken(item, error.message)
        except ValidationError as error:
            yield Broken(item, f"{path}: {_told(error)}")


def _items(tasks: Sequence[Path]) -> list[str]:
    """What the tasks are called: like their folders, with the one above where several have the same name."""
    counts = Counter(path.name for path in tasks)
    return [path.name if counts[path.name] == 1 else f"{path.parent.name}/{path.name}" for path in tasks]


def _told(error: ValidationError) -> str:
    """What of a task does not fit a scenario."""
    problems = error.errors(include_url=False, include_input=False)[:_SHOWN]
    return "; ".join(f"{'.'.join(map(str, each['loc']))[:100]}: {each['msg'][:200]}" for each in problems)
