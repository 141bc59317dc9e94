"""What is asked of a devbox's files."""

from pydantic import Field

from benchyard.models.base import Model


class ReadRequest(Model):
    """The body of `read_file_contents`."""

    file_path: str = Field(min_length=1, max_length=4096)


class WriteRequest(Model):
    """The body of `write_file_contents`."""

    file_path: str = Field(min_length=1, max_length=4096)
    contents: str


class DownloadRequest(Model):
    """The body of `download_file`."""

    path: str = Field(min_length=1, max_length=4096)
