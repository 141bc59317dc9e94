"""Homes of the users of devboxes."""

from benchyard.engine.descriptors import read_all
from benchyard.engine.tools import Tools
from benchyard.errors import NotFound, TooLarge, UsageError

_MAX_PASSWD_BYTES = 1024**2
_ROOT = "root"


def usual_home(user: str) -> str:
    """Where a user's home is unless somebody says otherwise."""
    return "/root" if user in (_ROOT, "0") else f"/home/{user}"


async def home_of(tools: Tools, devbox_id: str, user: str) -> str:
    """The home of a user of a running devbox, as its /etc/passwd tells."""
    try:
        descriptor = await tools.host.open_read(devbox_id, "/etc/passwd", _ROOT)
        data = await read_all(descriptor, "/etc/passwd", _MAX_PASSWD_BYTES)
    except (NotFound, TooLarge, UsageError):
        return usual_home(user)
    for line in data.decode(errors="replace").splitlines():
        fields = line.split(":")
        if len(fields) >= 6 and user in (fields[0], fields[2]) and fields[5].startswith("/"):
            return fields[5]
    return usual_home(user)
