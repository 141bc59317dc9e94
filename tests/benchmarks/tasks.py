"""Task folders in Harbor's form, written for tests: small, and of our own making."""

import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from benchyard.testing.server import RunningServer

APPLETS = (
    "sh",
    "ls",
    "cat",
    "echo",
    "mkdir",
    "id",
    "rm",
    "grep",
    "test",
    "true",
    "base64",
    "tar",
    "gzip",
    "chmod",
    "sleep",
    "env",
    "ln",
    "cp",
    "dirname",
    "date",
    "printf",
    "touch",
    "sed",
    "wc",
    "head",
)
SOLVE = "echo 42 > answer.txt\n"
TEST = """\
#!/bin/bash
if [ "$(cat answer.txt 2>/dev/null)" = 42 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


def small_base(server: RunningServer, folder: Path) -> str:
    """What a registry would call an image that a small one of this server stands in for."""
    root = folder / "root"
    for name in ("bin", "etc", "tmp", "root", "app"):
        (root / name).mkdir(parents=True)
    found = shutil.which("busybox")
    assert found, "busybox is not installed: `make setup` does it"
    shutil.copy(found, root / "bin/busybox")
    for name in (*APPLETS, "timeout"):
        (root / "bin" / name).symlink_to("busybox")
    bash = shutil.which("bash-static")
    assert bash, "bash-static is not installed: `make setup` does it"
    shutil.copy(bash, root / "bin/bash")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    name = f"small-{uuid.uuid4().hex[:8]}"
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as http:
        made = http.post("/v1/images/import", json={"path": str(root), "name": name})
        assert made.status_code == 200, made.text
        reference = f"example.test/{name}:1.0"
        alias = http.post("/v1/images/aliases", json={"reference": reference, "image": name})
        assert alias.status_code == 200, alias.text
    return reference


@dataclass(frozen=True)
class TaskWriter:
    """Writes task folders that start from one image."""

    folder: Path
    base: str

    def write(self, name: str, task: "Task | None" = None) -> Path:
        """A task; what it does not say is that it wants 42 in answer.txt."""
        task = task or Task()
        path = self.folder / name
        dockerfile = f"FROM {self.base}\nWORKDIR /app\n{task.dockerfile}"
        files = {
            "task.toml": task.toml,
            "instruction.md": task.instruction,
            "environment/Dockerfile": dockerfile,
            "tests/test.sh": task.test,
            "solution/solve.sh": f"#!/bin/sh\n{task.solve}",
            **task.files,
        }
        for inner, text in files.items():
            target = path / inner
            target.parent.mkdir(parents=True, exist_ok=True)
            if text is not None:
                target.write_text(text)
        return path


@dataclass(frozen=True)
class Task:
    """What one task says."""

    toml: str = (
        'schema_version = "1.4"\n[metadata]\ncategory = "sums"\n[environment]\nnetwork_mode = "no-network"\n'
    )
    instruction: str = "<!-- canary 123 -->\n\nWrite 42 to answer.txt\n"
    test: str | None = TEST
    solve: str = SOLVE
    dockerfile: str = ""
    files: Mapping[str, str | None] = field(default_factory=dict)
