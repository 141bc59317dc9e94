"""What `benchyard doctor` makes of other machines than this one."""

from pathlib import Path

import pytest

from benchyard.cli.doctor import (
    CheckedMachine,
    CheckOutcome,
    Finding,
    check_cgroups,
    check_container,
    check_ids,
    check_kernel,
    check_machine,
    check_namespaces,
    check_overlay,
    check_system,
    server_findings,
)
from benchyard.models.server import DoctorView, FailedMode, MissingCapability

USER = 12345


def machine(root: Path, files: dict[str, str] | None = None, uid: int = USER) -> CheckedMachine:
    for name, text in {
        "proc/self/ns/user": "",
        "proc/filesystems": "nodev\toverlay",
        **(files or {}),
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return CheckedMachine(
        root=root, uid=uid, system="Linux", kernel="6.1.0-18-amd64", data=Path("/home/me/data")
    )


def test_this_machine_can_be_looked_at() -> None:
    findings = list(check_machine(CheckedMachine.here(Path("/var/lib/benchyard"))))
    assert len(findings) == 8
    assert all(each.remedy for each in findings if each.verdict is not CheckOutcome.GOOD)


@pytest.mark.parametrize(
    ("system", "word"), [("Darwin", "Lima"), ("Windows", "WSL"), ("Plan9", "virtual machine")]
)
def test_other_systems_learn_where_to_run_the_server(tmp_path: Path, system: str, word: str) -> None:
    elsewhere = CheckedMachine(root=tmp_path, system=system)
    finding = check_system(elsewhere)
    assert finding.verdict is CheckOutcome.BAD
    assert word in (finding.remedy or "")
    assert len(list(check_machine(elsewhere))) == 2


@pytest.mark.parametrize(
    ("kernel", "verdict"),
    [
        ("6.1.0-18-amd64", CheckOutcome.GOOD),
        ("5.11.1", CheckOutcome.LESS),
        ("4.18.0-553.el8", CheckOutcome.BAD),
        ("odd", CheckOutcome.BAD),
    ],
)
def test_old_kernels_are_distinguished(kernel: str, verdict: CheckOutcome) -> None:
    assert check_kernel(CheckedMachine(kernel=kernel)).verdict is verdict


@pytest.mark.parametrize(
    ("file", "text", "word"),
    [
        ("proc/sys/user/max_user_namespaces", "0", "max_user_namespaces"),
        ("proc/sys/kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone=1"),
        (
            "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "apparmor_restrict_unprivileged_userns=0",
        ),
    ],
)
def test_cause_of_missing_user_namespaces_is_named(tmp_path: Path, file: str, text: str, word: str) -> None:
    finding = check_namespaces(machine(tmp_path, {file: text}))
    assert finding.verdict is CheckOutcome.BAD
    assert word in (finding.remedy or "")


def test_root_is_not_kept_from_namespaces_by_apparmor(tmp_path: Path) -> None:
    files = {"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"}
    assert check_namespaces(machine(tmp_path, files, uid=0)).verdict is CheckOutcome.GOOD


def test_a_data_folder_on_an_overlay_is_found(tmp_path: Path) -> None:
    mounts = (
        "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "30 21 0:40 / /home rw - overlay overlay rw\n"
        "31 21 0:41 / /home/me/other rw - tmpfs tmpfs rw"
    )
    finding = check_overlay(machine(tmp_path, {"proc/self/mountinfo": mounts}))
    assert finding.verdict is CheckOutcome.BAD
    assert "BENCHYARD_DATA" in (finding.remedy or "")


def test_a_kernel_without_overlays_is_found(tmp_path: Path) -> None:
    finding = check_overlay(machine(tmp_path, {"proc/filesystems": "ext4"}))
    assert finding.remedy == "`sudo modprobe overlay`"


def cgroups(tmp_path: Path, *, unified: bool, uid: int) -> Finding:
    name = "cgroup.controllers" if unified else "memory/tasks"
    files = {f"sys/fs/cgroup/{name}": "", "proc/self/cgroup": "0::/user.slice\n"}
    return check_cgroups(machine(tmp_path, files, uid))


def test_both_kinds_of_cgroups_are_known(tmp_path: Path) -> None:
    assert cgroups(tmp_path / "new", unified=True, uid=0).found == "v2"
    assert cgroups(tmp_path / "old", unified=False, uid=0).found == "v1"
    assert "ordinary users" in cgroups(tmp_path / "user", unified=False, uid=USER).found
    assert check_cgroups(machine(tmp_path / "none")).verdict is CheckOutcome.LESS


def test_cgroups_that_are_not_delegated_are_found(tmp_path: Path) -> None:
    finding = cgroups(tmp_path, unified=True, uid=USER)
    assert finding.found == "v2, not delegated to this user"
    (tmp_path / "sys/fs/cgroup/user.slice").mkdir()
    assert cgroups(tmp_path, unified=True, uid=USER).found == "v2, delegated"


def test_a_user_without_a_range_of_ids_learns_how_to_get_one(tmp_path: Path) -> None:
    finding = check_ids(machine(tmp_path, {"etc/subuid": "somebody:100000:65536"}))
    assert finding.verdict is CheckOutcome.LESS
    assert f"--add-subgids 100000-165535 {USER}" in (finding.remedy or "")
    assert check_ids(machine(tmp_path, uid=0)).verdict is CheckOutcome.GOOD


@pytest.mark.parametrize("file", [".dockerenv", "run/.containerenv"])
def test_a_container_around_us_is_found(tmp_path: Path, file: str) -> None:
    assert check_container(machine(tmp_path)).verdict is CheckOutcome.GOOD
    assert check_container(machine(tmp_path, {file: ""})).verdict is CheckOutcome.LESS


def test_the_servers_word_becomes_findings() -> None:
    told = DoctorView(
        driver="native",
        mode="rootless-single",
        capabilities=["isolation"],
        missing=[MissingCapability(capability="sudo", remedy="run the server as root")],
        tried=[FailedMode(mode="rootless-range", reason="no range in /etc/subuid")],
    )
    findings = list(server_findings(told, "http://here"))
    assert findings[0].found == "http://here, driver native, mode rootless-single"
    assert findings[1].remedy == "no range in /etc/subuid"
    assert findings[-1] == Finding("sudo", CheckOutcome.LESS, "not in devboxes", "run the server as root")
    builds = told.model_copy(update={"builder": "buildah 1.2"})
    assert list(server_findings(builds, ""))[-1].found == "built by buildah 1.2"
    does_not = told.model_copy(update={"builder_remedy": "install one"})
    last = list(server_findings(does_not, ""))[-1]
    assert last == Finding("dockerfiles", CheckOutcome.LESS, "cannot be built", "install one")
