"""The user who runs commands is there, made if need be."""

from pathlib import Path

import pytest

from benchyard.devboxes.base import Capability, Rootfs
from benchyard.errors import UsageError
from benchyard.hosts.users import has_user
from tests.hosts.conftest import OnHost
from tests.hosts.yard import HostYard


def _needs_users(yard: HostYard) -> None:
    if Capability.USERS not in yard.driver.capabilities:
        pytest.skip("the native driver has only one user here")


def test_commands_run_as_user_with_a_home_of_its_own(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        _needs_users(yard)
        devbox = await yard.devbox()
        assert await yard.text(devbox, "id -un; pwd; touch x && echo wrote") == "user\n/home/user\nwrote\n"
        assert await yard.text(devbox, "id -un; pwd", user="root") == "root\n/root\n"

    on_host(test, name="native")


def test_a_user_the_image_lacks_is_made(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        _needs_users(yard)
        devbox = await yard.devbox(user="ada", uid=4321)
        said = await yard.text(devbox, "id -un; id -u; id -gn; pwd; touch x; stat -c %U x")
        assert said == "ada\n4321\nada\n/home/ada\nada\n"
        await yard.host.stop(devbox, keep_disk=True)
        await yard.devbox(devbox, user="ada", uid=4321)
        assert await yard.text(devbox, "ls; grep -c ada /etc/passwd") == "x\n1\n"
        assert [state.command for state in await yard.host.executions(devbox)][-1].startswith("ls")

    on_host(test, name="native")


def test_a_user_that_was_made_can_use_sudo_as_user_can(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        if Capability.SUDO not in yard.driver.capabilities:
            pytest.skip("sudo is not served here")
        devbox = await yard.devbox(user="ada", uid=4321)
        assert await yard.text(devbox, "sudo -n id -un") == "root\n"

    on_host(test, name="native")


def test_a_user_can_be_given_another_uid(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        _needs_users(yard)
        devbox = await yard.devbox(user="user", uid=1777)
        assert await yard.text(devbox, "id -u; touch x; stat -c %u x ~") == "1777\n1777\n1777\n"

    on_host(test, name="native")


def test_root_needs_nothing(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox(user="root")
        assert await yard.text(devbox, "id -u; pwd") == "0\n/root\n"

    on_host(test, name="native")


def test_an_invalid_name_is_refused(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        _needs_users(yard)
        for name in ("a:b", "../x", "Upper", "x" * 40, "a\nroot"):
            with pytest.raises(UsageError):
                await yard.devbox("dbx_bad", user=name)
        assert yard.host.running() == set()

    on_host(test, name="native")


def _image(folder: Path, passwd: str | None) -> Rootfs:
    (folder / "top").mkdir(parents=True)
    (folder / "below/etc").mkdir(parents=True)
    (folder / "below/etc/passwd").write_text("user:x:1000:1000::/home/user:/bin/bash\n")
    if passwd is not None:
        (folder / "top/etc").mkdir()
        (folder / "top/etc/passwd").write_text(passwd)
    return Rootfs((folder / "top", folder / "below"))


def test_an_image_shows_its_users_by_its_topmost_list(tmp_path: Path) -> None:
    below = _image(tmp_path / "below", None)
    assert has_user(below, "user", None)
    assert has_user(below, "user", 1000)
    assert not has_user(below, "user", 1001)
    assert not has_user(below, "ada", None)
    covered = _image(tmp_path / "covered", "ada:x:7:7::/home/ada:/bin/sh\nuser:x:1000\n")
    assert has_user(covered, "ada", 7)
    assert not has_user(covered, "user", None)


def test_an_invalid_list_of_users_has_no_users(tmp_path: Path) -> None:
    linked, missing = _image(tmp_path / "linked", ""), _image(tmp_path / "missing", "")
    list_of_users = linked.layers[0] / "etc/passwd"
    list_of_users.unlink()
    list_of_users.symlink_to(linked.layers[1] / "etc/passwd")
    assert not has_user(linked, "user", None)
    (missing.layers[0] / "etc/passwd").unlink()
    (missing.layers[0] / "etc").rmdir()
    (missing.layers[0] / "etc").symlink_to(missing.layers[1] / "etc")
    assert not has_user(missing, "user", None)
    assert not has_user(Rootfs(()), "user", None)
