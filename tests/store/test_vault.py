"""The server's own secret is made once and kept."""

import stat
from pathlib import Path

import pytest

from benchyard.errors import StoreError
from benchyard.store.vault import Vault, write_private


def test_sealed_value_opens_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "secret-key"
    sealed = Vault(file).seal("wörd")
    assert "wörd" not in sealed
    assert Vault(file).open(sealed) == "wörd"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_another_key_does_not_open_it(tmp_path: Path) -> None:
    sealed = Vault(tmp_path / "one").seal("x")
    with pytest.raises(StoreError, match="another key"):
        Vault(tmp_path / "two").open(sealed)


def test_a_file_that_holds_no_key_is_reported_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "secret-key"
    file.write_text("damaged")
    with pytest.raises(StoreError, match="backup"):
        Vault(file)
    assert file.read_text() == "damaged"


def test_derived_keys_differ_by_purpose_and_message(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "key")
    derived = [vault.derive("a", "x"), vault.derive("a", "y"), vault.derive("b", "x"), vault.derive("ax", "")]
    assert len(set(derived)) == 4
    assert vault.derive("a", "x") == Vault(tmp_path / "key").derive("a", "x")


def test_a_private_file_replaces_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "note"
    file.write_text("old")
    file.chmod(0o644)
    write_private(file, "new")
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]
