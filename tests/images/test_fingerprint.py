"""What counts as another system."""

from pathlib import Path

import pytest

from benchyard.images.host_image import host_fingerprint, same_system, system_name


def test_it_names_the_system_and_hides_the_machine_id(machine: Path) -> None:
    fingerprint = host_fingerprint(machine)
    assert system_name(fingerprint).startswith("debian-12-")
    assert "0123456789abcdef" not in fingerprint
    assert host_fingerprint(machine) == fingerprint


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("etc/machine-id", "another\n"),
        ("etc/os-release", "ID=debian\nVERSION_ID=13\n"),
        ("etc/os-release", ""),
    ],
)
def test_another_machine_or_distribution_is_another_system(machine: Path, path: str, text: str) -> None:
    before = host_fingerprint(machine)
    (machine / path).write_text(text)
    assert not same_system(before, host_fingerprint(machine))


@pytest.mark.parametrize("path", ["var/lib/dpkg/status", "etc/resolv.conf", "usr/bin/sudo"])
def test_changed_packages_are_the_same_system_seen_anew(machine: Path, path: str) -> None:
    before = host_fingerprint(machine)
    (machine / path).write_text("changed and longer\n")
    after = host_fingerprint(machine)
    assert after != before
    assert same_system(before, after)


def test_a_strange_os_release_is_not_an_obstacle(machine: Path) -> None:
    (machine / "etc/os-release").write_bytes(b'ID=\'unbalanced\n=\n\xff\xfe\nVERSION_ID="1"2\\\n')
    assert host_fingerprint(machine)
