"""Harbor's lists of datasets: `registry.json`, and the manifest `dataset.toml`."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import PydanticCustomError

from benchyard import registry
from benchyard.benchmarks.files import located_values
from benchyard.benchmarks.files.bounded_folder import BoundedFolder, InnerPath
from benchyard.benchmarks.files.located_values import FilePart
from benchyard.benchmarks.sources import git
from benchyard.benchmarks.sources.base import GitTree, check_revision
from benchyard.errors import DatasetError, NotFound, UsageError

REGISTRY = "registry.json"
MANIFEST = "dataset.toml"
NEWEST = "head"
"""Word that names the newest version or commit."""

_MOST_REGISTRY_BYTES = 64 * 1024**2
_MOST_MANIFEST_BYTES = 16 * 1024**2
_MOST_TASKS = 100_000


@dataclass(frozen=True)
class RegistryTask:
    """A task folder: in a repository, or beside the registry."""

    name: str
    path: str
    git_url: str | None = None
    commit: str | None = None
    """Commit of the repository; None is the newest of the default branch."""


@dataclass(frozen=True)
class RegistryDataset:
    """A version of a dataset, and its task folders."""

    name: str
    version: str
    description: str
    tasks: tuple[RegistryTask, ...]

    def trees(self) -> tuple[GitTree, ...]:
        """Repositories to fetch, once for each commit, with the folders that are needed."""
        wanted: dict[tuple[str, str], list[str]] = {}
        for task in self.tasks:
            if task.git_url is not None:
                wanted.setdefault((task.git_url, task.commit or "HEAD"), []).append(task.path)
        return tuple(GitTree(url, commit, tuple(paths)) for (url, commit), paths in wanted.items())


@dataclass(frozen=True)
class Registry:
    """All datasets that a `registry.json` lists."""

    datasets: tuple[RegistryDataset, ...]

    def find(self, wanted: str) -> RegistryDataset:
        """Return the dataset of `NAME` or `NAME@VERSION`; raises NotFound with the known names."""
        name, _, version = wanted.partition("@")
        versions = {dataset.version: dataset for dataset in self.datasets if dataset.name == name}
        if not versions:
            names = sorted({dataset.name for dataset in self.datasets})
            raise NotFound(f"the registry has no dataset {name!r}{registry.nearest(name, names)}")
        version = version or newest(list(versions))
        if version not in versions:
            raise NotFound(f"{name} has no version {version!r}; there are: {', '.join(sorted(versions))}")
        return versions[version]


@dataclass(frozen=True)
class ManifestTask:
    """A task by the name and digest it was published with."""

    name: str
    digest: str


@dataclass(frozen=True)
class ManifestFile:
    """A file beside the manifest; it has no digest before it is published."""

    path: str
    digest: str | None


@dataclass(frozen=True)
class Manifest:
    """Content of a `dataset.toml`."""

    name: str
    version: str | None
    description: str
    tasks: tuple[ManifestTask, ...]
    files: tuple[ManifestFile, ...]
    metadata: dict[str, Any]

    def digest(self) -> str:
        """Digest that changes when a task or a file does; the order of tasks does not matter."""
        text = ",".join(sorted(_hexadecimal(task.digest) for task in self.tasks))
        if self.files:
            text += ";" + ",".join(sorted(f"{file.path}:{_hexadecimal(file.digest)}" for file in self.files))
        return hashlib.sha256(text.encode()).hexdigest()


def newest(versions: list[str]) -> str:
    """Return the default version: `head`, else the highest, else the last in alphabetical order."""
    if NEWEST in versions:
        return NEWEST
    numbered = []
    for version in versions:
        try:
            numbered.append((Version(version), version))
        except InvalidVersion:
            continue
    return max(numbered)[1] if numbered else max(versions)


def read_registry(path: Path) -> Registry:
    """Return the datasets of a `registry.json`; raises UsageError with the key and the line of a mistake."""
    text = BoundedFolder(path.parent).text(path.name, _MOST_REGISTRY_BYTES)
    data = located_values.parse_json(path, text)
    try:
        file = _RegistryFile.model_validate({"datasets": data})
    except ValidationError:
        # Finding lines takes longer than reading: do it only to report a mistake.
        document = located_values.read_json(path, text)
        _check_each(document)
        raise
    return Registry(tuple(dataset.dataset() for dataset in file.datasets))


def read_manifest(path: Path) -> Manifest:
    """Return the content of a `dataset.toml`; raises UsageError with the key and the line of a mistake."""
    text = BoundedFolder(path.parent).text(path.name, _MOST_MANIFEST_BYTES)
    document = located_values.read_toml(path, text)
    file = located_values.validate(document, _ManifestFile)
    if not re.fullmatch(r"1(\.\d+)?", file.schema_version):
        raise document.refuse(
            ("schema_version",), f"schema_version {file.schema_version!r} is not known; 1.0 is"
        )
    return Manifest(
        file.dataset.name,
        file.dataset.version,
        file.dataset.description,
        tuple(ManifestTask(task.name, task.digest) for task in file.tasks),
        tuple(ManifestFile(each.path, each.digest or None) for each in file.files),
        file.metadata,
    )


def _check_each(document: located_values.LocatedData) -> None:
    """Raise UsageError with the file's own lines: the file is a list, but the model needs a named field."""
    if not isinstance(document.data, list):
        raise document.refuse((), "a list of datasets is expected here")
    for index, data in enumerate(document.data):
        node = document.node.value[index]
        located_values.validate(located_values.LocatedData(document.path, data, node), _DatasetPart)


def _repository(value: str) -> str:
    try:
        git.parse_url(value)
    except UsageError as error:
        raise PydanticCustomError("git_url", "{said}", {"said": error.message}) from error
    return value


def _commit(value: str) -> str:
    try:
        check_revision(value)
    except DatasetError as error:
        raise PydanticCustomError("commit", "{said}", {"said": error.message}) from error
    return value


def _hexadecimal(digest: str | None) -> str:
    return (digest or "").removeprefix("sha256:")


_Short = Annotated[str, StringConstraints(min_length=1, max_length=500)]
_OwnedName = Annotated[
    str, StringConstraints(max_length=400, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$")
]
_Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
_FileName = Annotated[str, StringConstraints(max_length=255, pattern=r"^[^/\\\x00-\x1f]+$")]


class _Listed(BaseModel):
    """A part of a registry; unknown keys are ignored, since programs of later versions may write more."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _TaskPart(_Listed):
    name: _Short
    path: InnerPath
    git_url: Annotated[str, AfterValidator(_repository)] | None = None
    git_commit_id: Annotated[str, AfterValidator(_commit)] | None = None

    def task(self) -> RegistryTask:
        commit = None if (self.git_commit_id or NEWEST).lower() == NEWEST else self.git_commit_id
        return RegistryTask(self.name, self.path, self.git_url, commit)


class _DatasetPart(_Listed):
    name: _Short
    version: _Short
    description: str = ""
    tasks: list[_TaskPart] = Field(max_length=_MOST_TASKS)

    def dataset(self) -> RegistryDataset:
        return RegistryDataset(
            self.name, self.version, self.description, tuple(part.task() for part in self.tasks)
        )


class _RegistryFile(_Listed):
    datasets: list[_DatasetPart]


class _ManifestTaskPart(FilePart):
    name: _OwnedName
    digest: _Digest


class _ManifestFilePart(FilePart):
    path: _FileName
    digest: _Digest | Annotated[str, StringConstraints(max_length=0)] = ""


class _AuthorPart(FilePart):
    name: str
    email: str | None = None


class _ManifestDatasetPart(FilePart):
    name: _OwnedName
    version: _Short | None = None
    description: str = ""
    authors: list[_AuthorPart] = Field(default_factory=list)
    keywords: list[str] = Field(default_factory=list)


class _ManifestFile(FilePart):
    schema_version: str = "1.0"
    dataset: _ManifestDatasetPart
    tasks: list[_ManifestTaskPart] = Field(default_factory=list, max_length=_MOST_TASKS)
    files: list[_ManifestFilePart] = Field(default_factory=list, max_length=1000)
    metadata: dict[str, Any] = Field(default_factory=dict)
