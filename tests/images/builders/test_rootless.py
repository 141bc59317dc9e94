"""A build by an ordinary user: in the id mapping of the native driver, which reads and shares its layers."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import ROOT

PYTHON = "/usr/bin/python3"
SCRIPT = """
import asyncio, sys
from pathlib import Path
from benchyard import registry
from benchyard.images.builders.base import BuildRecipe
from benchyard.images.builders.choice import open_builder
from benchyard.images.store import ImageStore, ImageIdentity

DOCKERFILE = '''FROM base
RUN echo one > /one && chown 33:33 /one && mkdir /d && touch /d/x
RUN rm -r /d && mkdir /d && echo "token $TOKEN"
'''

async def main(home):
    (home / "data").mkdir(mode=0o700)
    native = registry.load("devboxes", "native")
    async with native(home / "data/driver", {"mode": "rootless-range"}) as driver:
        store = ImageStore(home / "data/images", driver.trees)
        await store.open()
        await store.import_archive(home / "base", "base")
        builder = await open_builder(store, home / "data/images", driver.trees)
        recipe = BuildRecipe(DOCKERFILE, secrets={"TOKEN": "hidden"})
        built = await builder.build(recipe, ImageIdentity("made"), print)
        for layer in store.rootfs(built.image).layers:
            print("layer", sorted(path.name for path in layer.iterdir()))
            if (layer / "one").exists():
                print("owner", (layer / "one").stat().st_uid)
        assert await builder.forget()
        for path in list((home / "data").iterdir()):
            if path.name != "driver":
                await driver.trees.remove(path)

asyncio.run(main(Path(sys.argv[1])))
"""


def missing() -> str | None:
    if os.geteuid() != 0:
        return "needs root to make a user"
    for program in ("useradd", "newuidmap", "setpriv", "buildah"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    probe = subprocess.run([PYTHON, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], check=False)
    return f"{PYTHON} is older than 3.11" if probe.returncode else None


@pytest.fixture
def home(busybox: Path) -> Iterator[Path]:
    """The home of a new user with ranges of ids, with the code and a base in it."""
    if reason := missing():
        pytest.skip(reason)
    name = f"builder{os.getpid()}"
    folder = Path(f"/var/tmp/{name}")
    subprocess.run(["useradd", "--create-home", "--home-dir", str(folder), name], check=True)
    try:
        ranges = ["--add-subuids", "400000-465535", "--add-subgids", "400000-465535"]
        subprocess.run(["usermod", *ranges, name], check=True)
        shutil.copytree(ROOT / "src", folder / "code", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(busybox, folder / "base", symlinks=True)
        (folder / "try.py").write_text(SCRIPT)
        subprocess.run(["chown", "-R", name, str(folder)], check=True)
        yield folder
    finally:
        subprocess.run(["userdel", "--force", name], check=True, capture_output=True)
        shutil.rmtree(folder)


def test_an_ordinary_user_builds(home: Path) -> None:
    become = ["setpriv", "--reuid", home.name, "--regid", home.name, "--init-groups", "--reset-env"]
    environment = ["env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"HOME={home}", f"PYTHONPATH={home / 'code'}"]
    command = [*become, *environment, PYTHON, str(home / "try.py"), str(home)]
    ended = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "token ***" in ended.stdout
    assert "hidden" not in ended.stdout
    assert "layer ['d', 'run']" in ended.stdout
    # Root is the user itself, so that the range begins with 1.
    ranges = [line.split(":") for line in Path("/etc/subuid").read_text().splitlines()]
    first = next(int(begin) for user, begin, _count in ranges if user == home.name)
    assert f"owner {first + 33 - 1}" in ended.stdout
