"""Files of a folder for an archive that is kept beside a scenario."""

from benchyard.benchmarks.folders import Folder
from benchyard.models.attachments import MOST_PACKED_BYTES, PackedFile


def files_of(folder: Folder, name: str, limit: int = MOST_PACKED_BYTES) -> dict[str, PackedFile]:
    """All files below a path of a folder, by their path below it; links to files in it are those files."""
    found: dict[str, PackedFile] = {}
    for each in folder.files(name):
        content = folder.data(each, limit)
        limit -= len(content)
        inner = each.removeprefix(name).lstrip("/") or each.rpartition("/")[2]
        found[inner] = PackedFile(content, folder.mode(each))
    return found
