"""Archives that are stored beside scenarios: each content once."""

import hashlib
from collections.abc import Mapping

from benchyard.client.client import Client
from benchyard.models.objects import ObjectRequest, ObjectState

PREFIX = "attachment-"
_PENDING = "(to be stored)"
_DIGITS = 32
_PAGE = 50


def attached(client: Client, archives: Mapping[str, bytes], *, dry_run: bool) -> dict[str, str]:
    """Name -> id of the object that holds an archive; stored where the same is not there."""
    found = {}
    for name, content in archives.items():
        digest = hashlib.sha256(content).hexdigest()[:_DIGITS]
        found[name] = stored(client, PREFIX + digest, content, dry_run=dry_run)
    return found


def stored(client: Client, name: str, archive: bytes, *, dry_run: bool) -> str:
    """The object of a name that tells its content; stored where it is not there."""
    found = [
        each.id
        for each in client.objects.list(name=name, limit=_PAGE)
        if each.name == name and each.state == ObjectState.READ_ONLY
    ]
    if found:
        # Imports at the same moment may have stored it twice: everybody takes the first.
        return found[-1]
    if dry_run:
        return _PENDING
    return client.objects.upload(archive, ObjectRequest(name=name, content_type="tgz")).id
