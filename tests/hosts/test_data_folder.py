"""A data folder is deleted whole, and only when nothing runs in it."""

import asyncio
import codecs
import os
import pwd
import subprocess
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from benchyard.devboxes.guest import syscalls
from benchyard.errors import Conflict, UsageError
from benchyard.hosts import leaks
from benchyard.hosts.data_folder import delete_data_folder
from benchyard.testing.contracts.driver_fixture import eventually
from benchyard.testing.server import RunningServer


@pytest.fixture
def lonely(tmp_path: Path) -> Iterator[RunningServer]:
    """A server of the test's own."""
    with RunningServer(tmp_path / "data") as running:
        yield running


def client_of(server: RunningServer) -> httpx.Client:
    headers = {"authorization": f"Bearer {server.key}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=40)


def test_it_goes_when_server_and_devboxes_have_ended(lonely: RunningServer) -> None:
    with client_of(lonely) as client:
        devbox = client.post("/v1/devboxes/create_and_await_running").json()["id"]
        with pytest.raises(Conflict, match="a server runs on"):
            delete_data_folder(lonely.data)
        lonely.kill()
        with pytest.raises(Conflict, match="1 devbox runs in"):
            delete_data_folder(lonely.data)
        assert (lonely.data / "host" / "devboxes" / devbox).is_dir(), "a refusal changes nothing"
    lonely.start()
    with client_of(lonely) as client:
        client.post(f"/v1/devboxes/{devbox}/shutdown").raise_for_status()
    asyncio.run(eventually(lambda: leaks.living(lonely.data) == [], "its end"))
    lonely.kill()
    delete_data_folder(lonely.data)
    assert not lonely.data.exists()


def test_no_other_folder_is_touched(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(UsageError, match="not the data folder of a server"):
        delete_data_folder(tmp_path)
    with pytest.raises(UsageError, match="not the data folder of a server"):
        delete_data_folder(tmp_path / "nowhere")
    assert (tmp_path / "precious").read_text() == "mine"


def test_partly_removed_data_folder_is_deleted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "images" / "layers" / "0123456789abcdef01234567" / "home").mkdir(parents=True)
    (data / "notes").touch()
    with pytest.raises(UsageError, match="not the data folder of a server"):
        delete_data_folder(data)
    (data / "notes").unlink()
    delete_data_folder(data)
    assert not data.exists()


def test_a_link_in_it_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    data = folder(tmp_path / "data")
    (data / "images").symlink_to(tmp_path / "precious")
    delete_data_folder(data)
    assert not data.exists()
    assert (tmp_path / "precious" / "file").read_text() == "mine"


def test_an_ordinary_user_may_delete_what_users_of_devboxes_made(tmp_path: Path) -> None:
    user, first = somebody_with_ids()
    data = folder(tmp_path / "data")
    made = data / "images" / "layer" / "home"
    made.mkdir(parents=True)
    (made / "file").write_text("made in a devbox")
    for path in (data, *data.rglob("*")):
        owner = first + 999 if made in (path, path.parent) else user.pw_uid
        os.chown(path, owner, owner)
    for above in (tmp_path, *tmp_path.parents):
        if above.owner() == "root" and above != Path("/tmp"):
            above.chmod(above.stat().st_mode | 0o711)

    codecs.lookup("ascii")  # the user may not be able to read the folders of this Python

    def as_user() -> None:
        os.setgroups([])
        os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
        os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)  # who has changed its user may not be looked at
        # Plain removal is refused, or this test would show nothing.
        assert subprocess.run(["rm", "-rf", made], check=False, capture_output=True).returncode != 0
        delete_data_folder(data)

    assert status_of_child(as_user) == 0
    # The folder above is not the user's: the empty folder stays.
    assert not data.exists() or list(data.iterdir()) == []


def folder(data: Path) -> Path:
    """A folder as a server makes it."""
    (data / "driver").mkdir(parents=True)
    (data / "lock").touch()
    return data


def somebody_with_ids() -> tuple[pwd.struct_passwd, int]:
    """A user whom /etc/subuid grants ids, and the first of them."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    file = Path("/etc/subuid")
    for line in file.read_text().splitlines() if file.is_file() else ():
        name, first, count = line.split(":")
        if name != "root" and int(count) > 1000:
            return pwd.getpwnam(name), int(first)
    pytest.skip("/etc/subuid grants ids to no ordinary user")


def status_of_child(do: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            do()
            status = 0
        except Exception:  # noqa: BLE001  whatever it is, its text is all that leaves a child
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1]
