"""The host's journal: what a killed host leaves of devboxes that it forgot."""

from dataclasses import replace
from pathlib import Path

from benchyard.hosts.host import StartRequest
from benchyard.hosts.shells import Shell
from benchyard.hosts.state import DevboxEntry, HostState
from benchyard.store.vault import Vault


def test_folders_that_hold_nothing_any_more_go_when_it_is_opened(tmp_path: Path) -> None:
    for name in ("empty", "noted"):
        (tmp_path / "devboxes" / name).mkdir(parents=True)
    (tmp_path / "devboxes" / "noted" / "request.json").write_text("{}")
    HostState(tmp_path / "devboxes", Vault(tmp_path / "key")).open()
    assert [path.name for path in (tmp_path / "devboxes").iterdir()] == ["noted"]


def test_the_variables_of_a_devbox_are_noted_while_it_should_run_and_no_longer(tmp_path: Path) -> None:
    journal = HostState(tmp_path / "devboxes", Vault(tmp_path / "key"))
    journal.open()
    request = StartRequest(id="dbx_1", image="host", env={"TOKEN": "a-secret-value"})
    running = DevboxEntry(request, "img_1", should_run=True)
    journal.write(running)
    assert journal.read("dbx_1") == running
    assert "a-secret-value" not in (tmp_path / "devboxes" / "dbx_1" / "request.json").read_text()
    journal.write(replace(running, should_run=False))
    ended = journal.read("dbx_1")
    assert ended is not None
    assert (ended.should_run, ended.request.image, dict(ended.request.env)) == (False, "host", {})
    assert "a-secret-value" not in (tmp_path / "devboxes" / "dbx_1" / "request.json").read_text()


def test_a_note_of_any_size_replaces_the_one_before_whole(tmp_path: Path) -> None:
    journal = HostState(tmp_path / "devboxes", Vault(tmp_path / "key"))
    journal.open()
    small = DevboxEntry(StartRequest(id="dbx_1", image="host", env={"A": "1"}), "img_1", should_run=True)
    large = replace(small, request=replace(small.request, env={"A": "x" * 10_000}))
    for entry in (large, small, large, small, replace(small, image_id="img_22")):
        journal.write(entry)
        assert journal.read("dbx_1") == entry
    assert [path.name for path in (tmp_path / "devboxes" / "dbx_1").iterdir()] == ["request.json"]


def test_variables_sealed_with_a_lost_key_do_not_hide_their_devbox(tmp_path: Path) -> None:
    request = StartRequest(id="dbx_1", image="host", env={"TOKEN": "a-secret-value"})
    journal = HostState(tmp_path / "devboxes", Vault(tmp_path / "key"))
    journal.open()
    journal.write(DevboxEntry(request, "img_1", should_run=True))
    found = HostState(tmp_path / "devboxes", Vault(tmp_path / "other-key")).read("dbx_1")
    assert found == DevboxEntry(replace(request, env={}), "img_1", should_run=True)


def test_plain_text_of_an_earlier_version_is_sealed_or_removed_when_it_is_opened(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "key")
    for name, has_disk in (("rests", True), ("ended", False)):
        shell = Shell.named(tmp_path / "devboxes" / name / "shells", "user", "s", vault)
        shell.state.parent.mkdir(parents=True)
        shell.state.write_bytes(b"export TOKEN=a-secret-value \xff")
        shell.state.with_suffix(".part").write_bytes(b"export TOKEN=a-sec")
        (tmp_path / "devboxes" / name / "request.json").write_text("{}")
        if has_disk:
            (tmp_path / "devboxes" / name / "changes").mkdir()
    HostState(tmp_path / "devboxes", vault).open()
    assert not (tmp_path / "devboxes" / "ended" / "shells").exists()
    shell = Shell.named(tmp_path / "devboxes" / "rests" / "shells", "user", "s", vault)
    assert [each.name for each in shell.state.parent.iterdir()] == [shell.state.name]
    assert b"a-sec" not in shell.state.read_bytes()
    assert shell.stored_state() == b"export TOKEN=a-secret-value \xff"
