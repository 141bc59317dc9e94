"""How RUN is walled off: by runc where it works, else by a change of root."""

import json
import os
import shutil
from pathlib import Path

from benchyard.images.builders import confine

_CHROOT = ["--isolation", "chroot"]
_SECONDS = 30.0
_MOUNT = 'mount --bind / "$0" && exec "$@"'


async def isolation(scratch: Path) -> list[str]:
    """The engine's options, found by trying: a container that runs `true` on this machine's own files."""
    runc = shutil.which("runc", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if os.geteuid() != 0 or runc is None:
        return _CHROOT
    bundle = scratch / "probe"
    (bundle / "rootfs").mkdir(parents=True)
    (bundle / "config.json").write_text(json.dumps(_PROBE))
    name = f"benchyard-probe-{os.getpid()}"
    command = ["/bin/sh", "-c", _MOUNT, str(bundle / "rootfs")]
    command += [runc, "--root", str(scratch / "runc"), "run", "--bundle", str(bundle), name]
    work = confine.Work(command, {"PATH": os.environ.get("PATH", "")}, scratch, seconds=_SECONDS)
    status = await confine.run(work, lambda line: None)
    return ["--isolation", "oci", "--runtime", runc] if status == 0 else _CHROOT


_PROBE = {
    "ociVersion": "1.0.2",
    "process": {"args": ["true"], "cwd": "/", "env": ["PATH=/usr/bin:/bin"], "user": {"uid": 0, "gid": 0}},
    "root": {"path": "rootfs", "readonly": True},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
    "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "network")]},
}
