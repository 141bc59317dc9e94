"""Writes a scenario of the wire as a folder that, read again, makes the same request."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from benchyard.benchmarks.files import bounded_folder, scenario_file
from benchyard.benchmarks.files.scenario_draft import EnvironmentOrigin, StartingFile, starting_file_of
from benchyard.benchmarks.files.scenario_file import TEXTS
from benchyard.models.launch import LaunchParameters
from benchyard.models.scenarios import (
    RULES_IN_METADATA,
    FolderOptions,
    ScenarioEnvironment,
    ScenarioView,
    ScoringFunction,
    Step,
)
from benchyard.models.scoring import references

_ENDINGS = {"python_script_scorer": ".py"}
_SAFE = re.compile(r"[^A-Za-z0-9._-]+")
_UNPLAIN = re.compile("[\r\x85\u2028\u2029\ufeff]")
"""Characters that readers of YAML would take for an end of line, or leave out."""
_MOST_NAME = 100


@dataclass(frozen=True)
class FolderContents:
    """Contents of a folder: the YAML of its main file, and all others by name."""

    data: dict[str, Any]
    files: dict[str, StartingFile] = field(default_factory=dict)

    def add(self, wanted: str, content: str | bytes, mode: int = 0o644) -> str:
        """Add a file under this name, or a similar one that is free; return the name."""
        name, count = wanted, 1
        while any(_collide(name, other) for other in self.files):
            count += 1
            top, _, rest = wanted.partition("/")
            name = f"{top}/{count}/{rest}" if rest else f"{count}-{top}"
        data = content.encode() if isinstance(content, str) else content
        self.files[name] = StartingFile(name, data, mode)
        return name

    def write(self, folder: Path, main: str) -> None:
        """Write all files, replacing files of these names; others stay."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, file in self.files.items():
            bounded_folder.write(folder, name, file.content, file.mode)
        bounded_folder.write(folder, main, dump_yaml(self.data).encode())


def _collide(one: str, other: str) -> bool:
    """Tell whether two paths exclude each other: they are equal, or one would have to be a folder."""
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def scenario_contents(
    view: ScenarioView, origin: EnvironmentOrigin, scripts: Mapping[str, str]
) -> FolderContents:
    """Return the folder of a scenario.

    `origin` is the start of its devbox with names instead of ids, `scripts` are its custom scorers.
    """
    contents = FolderContents({"name": view.name})
    data = contents.data
    contents.add("problem.md", view.input_context.problem_statement)
    data |= _without_empty({"additional_context": view.input_context.additional_context})
    environment = _environment(contents, view.environment or ScenarioEnvironment(), origin)
    data |= _without_empty({"environment": environment})
    functions = view.scoring_contract.scoring_function_parameters
    data["scorers"] = [_scorer(contents, function, scripts) for function in functions]
    data["isolation"] = view.scoring_isolation or "auto"
    data |= {name: _plain(value) for name in FolderOptions.model_fields if (value := getattr(view, name))}
    data |= _without_empty(
        {
            "steps": [_step(contents, view, each, scripts) for each in view.steps or []],
            "metadata": {key: value for key, value in view.metadata.items() if key not in RULES_IN_METADATA},
        }
    )
    if view.reference_output:
        contents.add(references.file_name(view), view.reference_output)
    return contents


def _plain(value: Any) -> Any:
    """Return a value as a file holds it."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.model_dump(exclude_defaults=True) if isinstance(value, BaseModel) else value


def _step(
    contents: FolderContents, view: ScenarioView, step: Step, scripts: Mapping[str, str]
) -> dict[str, Any]:
    folder = f"{scenario_file.STEPS}/{step.name}"
    data: dict[str, Any] = {"name": step.name}
    contents.add(f"{folder}/problem.md", step.problem_statement)
    if step.scoring_contract is not None:
        functions = step.scoring_contract.scoring_function_parameters
        data["scorers"] = [_scorer(contents, function, scripts, f"{folder}/") for function in functions]
    if step.reference_output:
        solved = view.model_copy(update={"reference_output": step.reference_output})
        contents.add(f"{folder}/{references.file_name(solved)}", step.reference_output)
    plain = step.model_dump(exclude={"name", "problem_statement", "scoring_contract", "reference_output"})
    return data | {name: value for name, value in plain.items() if value not in (None, "", False)}


def write_scenario(folder: Path, contents: FolderContents) -> None:
    """Write the folder of a scenario; remove a reference output of another kind."""
    for name in references.FILE_NAMES:
        if name not in contents.files:
            (folder / name).unlink(missing_ok=True)
    contents.write(folder, scenario_file.NAME)


def slug(text: str) -> str:
    """Return a name for a file or folder that resembles this text."""
    return _SAFE.sub("-", text).strip("-.")[:_MOST_NAME] or "unnamed"


def dump_yaml(value: Any) -> str:
    """Return YAML that is easy to read: keys in the given order, and texts of several lines as blocks."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text


def _environment(
    contents: FolderContents, environment: ScenarioEnvironment, origin: EnvironmentOrigin
) -> dict[str, Any]:
    data: dict[str, Any] = {origin.kind: origin.name} if origin.kind else {}
    data |= _without_empty({"working_directory": environment.working_directory})
    launch = environment.launch_parameters or LaunchParameters()
    files, commands = _split(launch.launch_commands or [], environment.working_directory)
    placed = []
    for file in files:
        name = contents.add(f"environment/files/{_inner(file.path)}", file.content, file.mode)
        placed.append({"file": name, "to": file.path})
    data |= _without_empty({"files": placed})
    left = launch.model_copy(update={"launch_commands": commands or None})
    return data | _without_empty({"launch_parameters": left.model_dump(mode="json", exclude_none=True)})


def _split(commands: list[str], directory: str | None) -> tuple[list[StartingFile], list[str]]:
    """Split launch commands into the files that the first ones write, and the commands after them."""
    files: list[StartingFile] = []
    for index, each in enumerate(commands):
        file = starting_file_of(each, directory)
        # Of a file's mode, git keeps only the executable bit.
        if file is None or file.mode not in (0o644, 0o755):
            return files, commands[index:]
        files.append(file)
    return files, []


def _scorer(
    contents: FolderContents, function: ScoringFunction, scripts: Mapping[str, str], folder: str = ""
) -> dict[str, Any]:
    scorer = dict(function.scorer)
    type = str(scorer.pop("type", ""))
    data: dict[str, Any] = {"name": function.name, "type": type, "weight": function.weight}
    text = TEXTS.get(type)
    if text and "\n" in str(scorer.get(text, "")):
        ending = _ENDINGS.get(type, ".sh")
        data["file"] = contents.add(f"{folder}scorers/{function.name}{ending}", str(scorer.pop(text)))
    script = scripts.get(str(scorer.get("custom_scorer_type")))
    if type == "custom_scorer" and script is not None:
        data["file"] = contents.add(f"{folder}scorers/{function.name}.sh", script)
    test_files = scorer.pop("test_files", None) or []
    data |= _without_empty(scorer)
    return data | _without_empty(
        {"files": list(_test_files(contents, f"{folder}tests/{function.name}", test_files))}
    )


def _test_files(contents: FolderContents, folder: str, files: list[Any]) -> Iterator[dict[str, str]]:
    for file in files:
        path = str(file["file_path"])
        name = contents.add(f"{folder}/{_inner(path)}", file.get("file_contents") or "")
        yield {"file": name, "to": path}


def _inner(path: str) -> str:
    """Return a path similar to the one in the devbox that stays inside the folder."""
    parts = [slug(part) for part in path.split("/") if part not in ("", ".", "..")]
    return "/".join(parts[-8:]) or "unnamed"


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}


class _Dumper(yaml.SafeDumper):
    """Writes lists below their key, indented."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002 (theirs)
        return super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    if _UNPLAIN.search(value):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
