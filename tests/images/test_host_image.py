"""The default image shows the allow-list and nothing else."""

import os
import stat
import tarfile
from pathlib import Path

import pytest

from benchyard.devboxes.layers.unpack import unpack_layer
from benchyard.errors import ImageError
from benchyard.images.host_image import ALLOWED, leads_into_view, own_files, write_host_layer

SECRET = "s3cr3t-of-this-machine"


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    folder = tmp_path / "layer"
    folder.mkdir()
    return folder


def make(machine: Path, layer: Path) -> tuple[str, ...]:
    tar = layer.parent / "host.tar"
    host_dirs = write_host_layer(machine, tar)
    unpack_layer(str(tar), str(layer), keep_owner=os.geteuid() == 0)
    return host_dirs


def plant(machine: Path, path: str, text: str = SECRET, mode: int = 0o644) -> None:
    target = machine / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    target.chmod(mode)


def everything(layer: Path) -> dict[str, bytes]:
    """Every path of the layer, with what it says: content, or where a link leads."""
    found = {}
    for path in layer.rglob("*"):
        name = path.relative_to(layer).as_posix()
        if path.is_symlink():
            found[name] = os.fsencode(path.readlink())
        else:
            found[name] = path.read_bytes() if path.is_file() else b""
    return found


def test_real_directories_lie_below_and_merged_ones_stay_links(machine: Path, layer: Path) -> None:
    assert make(machine, layer) == ("usr", "lib64")
    assert (layer / "bin").readlink() == Path("usr/bin")
    assert list((layer / "usr").iterdir()) == []
    assert list((layer / "lib64").iterdir()) == []


def test_a_system_without_usr_is_advised_to_import_an_image(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="import an image instead"):
        write_host_layer(tmp_path, tmp_path / "tar")


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        ("home/someone/.ssh/id_ed25519", 0o644),
        ("root/.bash_history", 0o644),
        ("opt/app/config", 0o644),
        ("srv/data", 0o644),
        ("var/lib/postgresql/data", 0o644),
        ("var/lib/dpkg/info/openssh-server.postinst", 0o644),
        ("etc/shadow", 0o644),
        ("etc/passwd", 0o644),
        ("etc/group", 0o644),
        ("etc/sudoers", 0o644),
        ("etc/sudoers.d/someone", 0o644),
        ("etc/pam.d/sudo", 0o644),
        ("etc/environment", 0o644),
        ("etc/fstab", 0o644),
        ("etc/hosts", 0o644),
        ("etc/ssh/ssh_host_ed25519_key", 0o644),
        ("etc/ssl/private/server.pem", 0o644),
        ("etc/ssl/other", 0o644),
        ("etc/apt/auth.conf", 0o644),
        ("etc/apt/auth.conf.d/mirror", 0o644),
        ("etc/profile.d/token.sh", 0o644),
        ("etc/java-17/management/jmxremote.password", 0o600),
        ("etc/ssl/certs/closed.pem", 0o640),
        ("etc/apt/sources.list.d/closed.list", 0o600),
        ("run/secrets/token", 0o644),
    ],
)
def test_unlisted_and_private_files_do_not_appear(machine: Path, layer: Path, path: str, mode: int) -> None:
    plant(machine, path, mode=mode)
    make(machine, layer)
    assert [name for name, said in everything(layer).items() if SECRET.encode() in said] == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("etc/ssl/certs/server.pem", f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n"),
        (
            "etc/apt/sources.list.d/private.list",
            f"deb https://me:{SECRET}@mirror.example/debian stable main\n",
        ),
        ("etc/apt/apt.conf.d/proxy", f'Acquire::http::Proxy "http://me:{SECRET}@proxy.example:3128";\n'),
        ("etc/pip.conf", f"[global]\nindex-url = https://{SECRET}@pypi.example/simple\n"),
        ("etc/wgetrc", f"http_password = {SECRET}\n"),
        ("etc/apt/apt.conf.d/key", f'Acquire::https::Token "{SECRET}";\n'),
    ],
)
def test_files_on_the_list_that_hold_a_secret_stay_out(
    machine: Path, layer: Path, path: str, text: str
) -> None:
    plant(machine, path, text)
    make(machine, layer)
    assert [name for name, said in everything(layer).items() if SECRET.encode() in said] == []
    assert not (layer / path).exists()


def test_links_never_carry_content_in_and_never_lead_out_of_the_view(machine: Path, layer: Path) -> None:
    plant(machine, "home/someone/secret", mode=0o644)
    (machine / "etc/timezone").symlink_to(machine / "home/someone/secret")
    (machine / "etc/services").symlink_to("/home/someone/secret")
    (machine / "etc/ssl").mkdir(parents=True)
    (machine / "etc/ssl/certs").symlink_to("../../home/someone")
    (machine / "etc/perl").symlink_to("/usr/share/perl")
    (machine / "etc/alternatives").mkdir()
    (machine / "etc/alternatives/vi").symlink_to("/opt/vi")
    make(machine, layer)
    assert [name for name, said in everything(layer).items() if SECRET.encode() in said] == []
    for name in ("timezone", "services", "ssl/certs", "alternatives/vi"):
        assert not (layer / "etc" / name).is_symlink()
    assert (layer / "etc/perl").readlink() == Path("/usr/share/perl")


def test_a_listed_name_below_a_linked_folder_is_not_read(machine: Path, layer: Path) -> None:
    plant(machine, "home/someone/sources.list")
    (machine / "etc/apt/sources.list").unlink()
    (machine / "etc/apt").rmdir()
    (machine / "etc/apt").symlink_to(machine / "home/someone")
    make(machine, layer)
    assert [name for name, said in everything(layer).items() if SECRET.encode() in said] == []


def test_fifos_and_devices_of_the_host_are_left_alone(machine: Path, layer: Path) -> None:
    os.mkfifo(machine / "etc/services", 0o644)
    make(machine, layer)
    assert not (layer / "etc/services").exists()


def test_everything_in_it_is_ours_or_on_the_list(machine: Path, layer: Path) -> None:
    plant(machine, "etc/services", "ssh 22/tcp\n")
    plant(machine, "etc/python3.12/site.cfg", "x")
    plant(machine, "etc/python3-debian", "x")
    make(machine, layer)
    ours = {own.path for own in own_files(machine)} | {"etc/resolv.conf", "etc/mtab"}
    listed = tuple(each.rstrip("*") for each in ALLOWED)
    files = [name for name in everything(layer) if not (layer / name).is_dir() or (layer / name).is_symlink()]
    strangers = [
        name
        for name in files
        if name not in ours
        and not name.startswith(listed)
        and name not in ("bin", "var/run", "var/lock", "var/lib/dpkg/info/bash.list")
    ]
    assert strangers == []
    assert (layer / "etc/services").read_text() == "ssh 22/tcp\n"


def test_accounts_are_ours_with_a_user_who_may_sudo(machine: Path, layer: Path) -> None:
    make(machine, layer)
    passwd = (layer / "etc/passwd").read_text().splitlines()
    assert passwd[0] == "root:x:0:0:root:/root:/bin/bash"
    assert "user:x:1000:1000:user:/home/user:/bin/bash" in passwd
    assert "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin" in passwd
    assert "sudo:x:27:user" in (layer / "etc/group").read_text().splitlines()
    assert {line.split(":")[1] for line in (layer / "etc/shadow").read_text().splitlines()} == {"*"}
    assert "user ALL=(ALL:ALL) NOPASSWD: ALL" in (layer / "etc/sudoers").read_text()
    assert stat.S_IMODE((layer / "etc/sudoers").stat().st_mode) == 0o440
    assert stat.S_IMODE((layer / "etc/shadow").stat().st_mode) == 0o640
    assert "krb5" not in (layer / "etc/pam.d/sudo").read_text()


def test_directories_have_the_modes_of_a_root_filesystem(machine: Path, layer: Path) -> None:
    make(machine, layer)
    modes = {
        name: stat.S_IMODE((layer / name).stat().st_mode)
        for name in ("tmp", "var/tmp", "root", "etc", "proc")
    }
    assert modes == {"tmp": 0o1777, "var/tmp": 0o1777, "root": 0o700, "etc": 0o755, "proc": 0o555}
    if os.geteuid() == 0:
        assert (layer / "home/user").stat().st_uid == 1000
        assert (layer / "home/user/.profile").stat().st_uid == 1000


def test_without_sudo_there_are_no_rules_for_it(machine: Path, layer: Path) -> None:
    (machine / "usr/bin/sudo").unlink()
    make(machine, layer)
    assert not (layer / "etc/sudoers").exists()


def test_packages_are_known_but_not_their_files(machine: Path, layer: Path) -> None:
    make(machine, layer)
    assert "Package: bash" in (layer / "var/lib/dpkg/status").read_text()
    assert (layer / "var/lib/dpkg/info/bash.list").read_bytes() == b""


def test_the_same_system_gives_the_same_bytes(machine: Path, tmp_path: Path) -> None:
    write_host_layer(machine, tmp_path / "one")
    write_host_layer(machine, tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_this_very_machine_gives_a_small_layer_without_homes_or_keys(tmp_path: Path) -> None:
    write_host_layer(Path("/"), tmp_path / "tar")
    with tarfile.open(tmp_path / "tar") as tar:
        members = tar.getmembers()
    names = {member.name for member in members}
    assert {name for name in names if name.startswith("home/")} == {
        "home/user",
        "home/user/.profile",
        "home/user/.bashrc",
    }
    assert not {
        name for name in names if name.startswith(("opt/", "etc/ssh/", "etc/ssl/private", "root/.ssh"))
    }
    assert sum(member.size for member in members) < 32 * 1024**2
    assert {(member.uid, member.gid) for member in members} <= {(0, 0), (1000, 1000), (0, 8), (0, 42)}


@pytest.mark.parametrize(
    ("path", "target", "leads"),
    [
        ("etc/localtime", "/usr/share/zoneinfo/UTC", True),
        ("etc/os-release", "../usr/lib/os-release", True),
        ("etc/a/b", "../c", True),
        ("etc/x", "../../../home/me", False),
        ("etc/x", "/usr/../home/me", False),
        ("etc/x", "/", False),
        ("etc/x", "/proc/self/root", False),
    ],
)
def test_where_links_may_lead(path: str, target: str, *, leads: bool) -> None:
    assert leads_into_view(path, target) is leads
