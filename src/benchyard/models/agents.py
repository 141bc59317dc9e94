"""Agents: a user's own programs under test, and which one a job has chosen."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from benchyard.models.base import Columns, Metadata, Model, Record

CommandText = Annotated[
    str, StringConstraints(min_length=1, max_length=65536, pattern=r"^[^\x00]*[^\x00\s][^\x00]*$")
]
"""What is given to a shell: not empty, and no longer than an argument can be."""
AgentName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/@-]{0,199}$")]
"""One word; on a command line `@` and `:` follow it, so a colon is never part of it."""
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
    """No local path, nothing that a program takes for an option or a command, and no password to be shown."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise ValueError("must be an address that begins with https://, http:// or git://")
    if "@" in found["host"]:
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
"""Commands that are run in the agent's folder after it was put there."""

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
    """Where an agent comes from: the part that its type names, and no other."""

    type: SourceType
    npm: NpmSource | None = None
    pip: PipSource | None = None
    git: GitSource | None = None
    object: ObjectSource | None = None

    @model_validator(mode="after")
    def _one_part(self) -> Self:
        parts = {"npm": self.npm, "pip": self.pip, "git": self.git, "object": self.object}
        given = [name for name, part in parts.items() if part is not None]
        if given != [self.type]:
            raise ValueError(f"a source of type {self.type!r} needs the part {self.type!r} and no other")
        return self

    @property
    def setup(self) -> list[str]:
        """The commands that are run after it was put in place."""
        part = self.npm or self.pip or self.git or self.object
        return list(part.agent_setup or []) if part else []

    def described(self) -> str:
        """In a few words: what it is a copy of."""
        if self.git:
            return f"{self.git.repository}{f' at {self.git.ref}' if self.git.ref else ''}"
        package = self.npm or self.pip
        return package.package_name if package else self.object.object_id if self.object else ""


def origin(source: str | None) -> str | None:
    """Where an agent of a type of source comes from, as the end of a sentence."""
    return "an uploaded object" if source == "object" else source


class AgentRequest(Model):
    """The body of a create call; `run_command` and `metadata` are extensions."""

    name: AgentName
    version: AgentVersion | None = None
    source: AgentSource | None = None
    run_command: CommandText | None = None
    """How jobs run it; `{prompt_file}`, `{model}`, `{logs}`, `{workdir}` and `{agent_dir}` are filled in."""
    metadata: Metadata | None = None


class RegisteredAgent(Record):
    """An agent as it is kept; it never changes."""

    name: str
    version: str | None = None
    source: AgentSource | None = None
    is_public: bool = False
    run_command: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)

    def columns(self) -> Columns:
        """Found by name, version, and whether it is everybody's."""
        return Columns(name=self.name, status="public" if self.is_public else "own", parent=self.version)

    def view(self) -> "AgentView":
        """As the wire shows it."""
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
    """Of a public one: those that are on the server already; `version` is the one that is run by default."""
    kwargs: dict[str, str] | None = None
    """The kwargs that it takes in a job -> what each is for, where that is known."""
    keys: dict[str, list[str]] | None = None
    """Of a public one: provider -> the variables any of which holds a key; none where it needs none."""
    server_lacks: list[str] | None = None
    """Programs that the server needs to install and run it, and does not have (an extension)."""


class AgentInstallRequest(Model):
    """Which agent to install ahead of its first use."""

    name: AgentName
    version: AgentVersion | None = None
    """The one that jobs run by default, if none is said."""


class AgentInstallView(Model):
    """An agent that is on the server."""

    name: str
    version: str | None = None
    source: SourceType | None = None
    """Where it came from; None for one that is a part of the server."""
    was_installed: bool
    """Whether it was there before."""
    duration_ms: int = 0
    """How long the install took."""


class AgentListView(Model):
    """One page of agents."""

    agents: list[AgentView]
    has_more: bool
    total_count: int | None = None


class AgentDevboxCountsView(Model):
    """How many devboxes that have not ended show an agent, by its name."""

    counts: dict[str, int]
    total_count: int


class AgentChoice(Model):
    """The agent that a job runs, settled when the job was made: later versions do not change it."""

    name: str
    version: str | None = None
    agent_id: str | None = None
    """Of a registered one; None for those that come with us."""
    kwargs: dict[str, str] = Field(default_factory=dict)
