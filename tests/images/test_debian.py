"""Making a Debian image: the program is run, watched and ended; what it made is imported."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from benchyard.errors import ImageError, UsageError
from benchyard.images.debian import make_debian
from benchyard.images.store import ImageStore

BOOTSTRAP = """#!/bin/sh
echo "I: options $1 $2"
mkdir -p root/usr root/etc
echo "$3" > root/etc/suite
tar -cf "$4" -C root .
echo "I: success" >&2
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that comes first where programs are looked for; the real ones are left out."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("sh", "mkdir", "tar", "sleep", "cat"):
        (folder / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def install(programs: Path, script: str) -> None:
    (programs / "mmdebstrap").write_text(script)
    (programs / "mmdebstrap").chmod(0o755)


def test_bootstrapped_system_is_imported(store: ImageStore, programs: Path, tmp_path: Path) -> None:
    install(programs, BOOTSTRAP)
    lines: list[str] = []

    async def run() -> None:
        await store.open()
        image = await make_debian(store, "trixie", "deb", progress=lines.append)
        assert image.name == "deb"
        assert (store.rootfs(image).layers[-1] / "etc/suite").read_text() == "trixie\n"

    asyncio.run(run())
    assert "I: success" in lines
    assert list((tmp_path / "store/partial").iterdir()) == []


def test_without_the_program_the_package_to_install_is_named(store: ImageStore, programs: Path) -> None:
    async def run() -> None:
        await store.open()
        await make_debian(store)

    with pytest.raises(ImageError, match="apt-get install mmdebstrap"):
        asyncio.run(run())


def test_a_failure_shows_what_the_program_said_last(store: ImageStore, programs: Path) -> None:
    install(programs, "#!/bin/sh\necho 'E: no such mirror' >&2\nexit 25\n")

    async def run() -> None:
        await store.open()
        await make_debian(store)

    with pytest.raises(ImageError, match="status 25: E: no such mirror"):
        asyncio.run(run())


@pytest.mark.parametrize("suite", ["--hook=rm", "a b", "", "Bookworm", "x" * 40])
def test_a_suite_cannot_be_an_option(store: ImageStore, suite: str) -> None:
    with pytest.raises(UsageError, match="not the name of a Debian release"):
        asyncio.run(make_debian(store, suite))


def test_a_mirror_is_an_address(store: ImageStore) -> None:
    with pytest.raises(UsageError, match="not the address of a mirror"):
        asyncio.run(make_debian(store, mirror="--unsafe"))


def alive_in_group(group: int) -> list[str]:
    """Processes of a group, without those that only wait to be reaped."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = path.read_text().rpartition(")")
            state, _, number = rest.split()[:3]
            if int(number) == group and state != "Z":
                found.append(name)
    return found


def test_giving_up_ends_the_program_and_leaves_nothing(
    store: ImageStore, programs: Path, tmp_path: Path
) -> None:
    install(programs, "#!/bin/sh\nsh -c 'trap \"\" TERM; sleep 1000' &\necho $$\nexec sleep 1000\n")

    async def run() -> int:
        await store.open()
        printed: asyncio.Queue[str] = asyncio.Queue()
        task = asyncio.create_task(make_debian(store, progress=printed.put_nowait))
        group = int(await asyncio.wait_for(printed.get(), 30))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return group

    assert alive_in_group(asyncio.run(run())) == []
    assert list((tmp_path / "store/partial").iterdir()) == []
