"""What is put into a devbox before it runs: files, objects, repositories, agents."""

from typing import Annotated, Literal

from pydantic import Field

from benchyard.models.base import Model

REPOSITORY_PART = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$"


class FileMount(Model):
    """A file with this text."""

    type: Literal["file_mount"] = "file_mount"
    target: str = Field(min_length=1, max_length=4096)
    content: str


class ObjectMount(Model):
    """A stored object as a file, or unpacked when it is an archive."""

    type: Literal["object_mount"] = "object_mount"
    object_id: str
    object_path: str = Field(min_length=1, max_length=4096)


class CodeMount(Model):
    """A git repository, cloned into the user's home."""

    type: Literal["code_mount"] = "code_mount"
    repo_owner: str = Field(pattern=REPOSITORY_PART)
    repo_name: str = Field(pattern=REPOSITORY_PART)
    token: str | None = Field(default=None, repr=False)
    """Kept encrypted, and thereby longer than it came: its limit is the launch's, not the record's."""
    git_ref: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_][A-Za-z0-9._/+@-]{0,254}$")
    install_command: str | None = None


class AgentMount(Model):
    """An agent of the registry, by id or the newest of a name."""

    type: Literal["agent_mount"] = "agent_mount"
    agent_id: str | None = Field(default=None, max_length=200)
    agent_name: str | None = Field(default=None, max_length=200)
    agent_path: str | None = Field(default=None, max_length=1024)
    """Where its folder is shown, read-only; packages need none: their commands are in PATH."""
    auth_token: str | None = Field(default=None, repr=False)
    """Opens a private repository; kept encrypted, as that of a `CodeMount`."""


class BrokerMount(Model):
    """An axon's broker; served once there are axons."""

    type: Literal["broker_mount"]


Mount = Annotated[FileMount | ObjectMount | CodeMount | AgentMount | BrokerMount, Field(discriminator="type")]
