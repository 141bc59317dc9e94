"""Agents: a user's own programs under test, and the agents that jobs choose."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from benchyard.models.base import Columns, Metadata, Model, Record

CommandText = Annotated[
    str, StringConstraints(min_length=1, max_length=65536, pattern=r"^[^\x00]*[^\x00\s][^\x00]*$")
]
"""A command line for a shell: not empty, and no longer than an argument can be."""
AgentName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/@-]{0,199}$")]
"""A single word without a colon: on a command line `@` and `:` follow it."""
AgentVersion = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+/-]{0,199}$")]
NpmName = Annotated[
    str, StringConstraints(pattern=r"^(@[A-Za-z0-9._~-]{1,100}/)?[A-Za-z0-9._~][A-Za-z0-9._~-]{0,212}$")
]
PipName = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,198}[A-Za-z0-9])?(\[[A-Za-z0-9._,-]{1,200}\])?$"
    ),
]
_ADDRESS = re.compile(r"(?P<scheme>https?|git)://(?P<host>[!-.0-~]+)(/[!-~]*)?")


def _address(text: str) -> str:
    """Refuse local paths, text that a program would read as an option or command, and visible passwords."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError("must be an address that begins with https://, http:// or git://")
    if "@" in match["host"]:
        raise ValueError("must have no name or password in it; give the token of a repository with its mount")
    return text


def _web_address(text: str) -> str:
    if not text.startswith("http"):
        raise ValueError("must be an address that begins with https:// or http://")
    return _address(text)


Url = Annotated[str, StringConstraints(max_length=2048), AfterValidator(_web_address)]
Repository = Annotated[str, StringConstraints(max_length=2048), AfterValidator(_address)]
GitRef = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._/+@-]{0,254}$")]
Setup = Annotated[list[CommandText], Field(max_length=100)]
"""Commands that run in the agent's folder after its files are in place."""

SourceType = Literal["npm", "pip", "git", "object"]


class NpmSource(Model):
    """A package of an npm registry."""

    package_name: NpmName
    registry_url: Url | None = None
    agent_setup: Setup | None = None


class PipSource(Model):
    """A package of a Python index."""

    package_name: PipName
    registry_url: Url | None = None
    agent_setup: Setup | None = None


class GitSource(Model):
    """A git repository."""

    repository: Repository
    ref: GitRef | None = None
    agent_setup: Setup | None = None


class ObjectSource(Model):
    """A stored object: an archive that is unpacked, or one file."""

    object_id: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    agent_setup: Setup | None = None


class AgentSource(Model):
    """The source of an agent: the part that its type names, and no other part."""

    type: SourceType
    npm: NpmSource | None = None
    pip: PipSource | None = None
    git: GitSource | None = None
    object: ObjectSource | None = None

    @model_validator(mode="after")
    def _one_part(self) -> Self:
        parts = {"npm": self.npm, "pip": self.pip, "git": self.git, "object": self.object}
        names = [name for name, part in parts.items() if part is not None]
        if names != [self.type]:
            raise ValueError(f"a source of type {self.type!r} needs the part {self.type!r} and no other")
        return self

    @property
    def setup(self) -> list[str]:
        """Return the commands that run after its files are in place."""
        part = self.npm or self.pip or self.git or self.object
        return list(part.agent_setup or []) if part else []

    def described(self) -> str:
        """Describe in a few words the repository, package or object that it is installed from."""
        if self.git:
            return f"{self.git.repository}{f' at {self.git.ref}' if self.git.ref else ''}"
        package = self.npm or self.pip
        return package.package_name if package else self.object.object_id if self.object else ""


def origin(source: str | None) -> str | None:
    """Return the words for a type of source at the end of a sentence."""
    return "an uploaded object" if source == "object" else source


class AgentRequest(Model):
    """The body of a create call; `run_command` and `metadata` are extensions."""

    name: AgentName
    version: AgentVersion | None = None
    source: AgentSource | None = None
    run_command: CommandText | None = None
    """The command in jobs; it may name `{prompt_file}`, `{model}`, `{logs}`, `{workdir}`, `{agent_dir}`."""
    metadata: Metadata | None = None


class RegisteredAgent(Record):
    """A registered agent as it is stored; it never changes."""

    name: str
    version: str | None = None
    source: AgentSource | None = None
    is_public: bool = False
    run_command: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)

    def columns(self) -> Columns:
        """Index by name, version, and whether it is public."""
        return Columns(name=self.name, status="public" if self.is_public else "own", parent=self.version)

    def view(self) -> "AgentView":
        """Return the agent as the wire shows it."""
        return AgentView.model_validate(self, from_attributes=True)


class AgentView(Model):
    """An agent as the wire shows it."""

    id: str
    name: str
    version: str | None = None
    is_public: bool
    create_time_ms: int
    source: AgentSource | None = None
    run_command: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    installed_versions: list[str] | None = None
    """For a public agent: the versions installed on the server; `version` is the one that runs by default."""
    kwargs: dict[str, str] | None = None
    """The kwargs that it takes in a job -> the purpose of each, if known."""
    keys: dict[str, list[str]] | None = None
    """For a public agent: provider -> variables, any of which may hold a key; none if it needs no key."""
    server_lacks: list[str] | None = None
    """Programs needed to install and run it that the server lacks (an extension)."""


class AgentInstallRequest(Model):
    """The agent to install ahead of its first use."""

    name: AgentName
    version: AgentVersion | None = None
    """The version to install; by default, the one that jobs run."""


class AgentInstallView(Model):
    """An agent that is installed on the server."""

    name: str
    version: str | None = None
    source: SourceType | None = None
    """The kind of source it is installed from; None if it is a part of the server."""
    was_installed: bool
    """True if it was installed before this request."""
    duration_ms: int = 0
    """Duration of the install."""


class AgentListView(Model):
    """A page of agents."""

    agents: list[AgentView]
    has_more: bool
    total_count: int | None = None


class AgentDevboxCountsView(Model):
    """Numbers of devboxes that have not ended and mount an agent, by the agent's name."""

    counts: dict[str, int]
    total_count: int


class AgentChoice(Model):
    """The agent that a job runs, fixed when the job is created: later versions do not change it."""

    name: str
    version: str | None = None
    agent_id: str | None = None
    """The id of a registered agent; None for an agent that comes with the server."""
    kwargs: dict[str, str] = Field(default_factory=dict)
