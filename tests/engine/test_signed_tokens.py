from pathlib import Path

import pytest

from benchyard.engine.signed_tokens import check_token, make_token
from benchyard.errors import Unauthorized
from benchyard.store.vault import Vault


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path / "key")


def test_a_pass_tells_its_subject(vault: Vault) -> None:
    assert check_token(vault, "door", make_token(vault, "door", "dbx_1/a:b", 60)) == "dbx_1/a:b"


def test_a_pass_is_for_its_purpose_and_its_time_only(vault: Vault) -> None:
    with pytest.raises(Unauthorized, match="not from this server"):
        check_token(vault, "window", make_token(vault, "door", "dbx_1", 60))
    with pytest.raises(Unauthorized, match="expired"):
        check_token(vault, "door", make_token(vault, "door", "dbx_1", -1))


def test_a_pass_of_another_server_opens_nothing(vault: Vault, tmp_path: Path) -> None:
    other = Vault(tmp_path / "other")
    with pytest.raises(Unauthorized):
        check_token(vault, "door", make_token(other, "door", "dbx_1", 60))


@pytest.mark.parametrize("forged", ["", "a", "a.b.c", "é.é", "AAAA.AAAA", "." * 5, "MTIz.AAAA", "%00.%00"])
def test_nonsense_is_not_a_pass(vault: Vault, forged: str) -> None:
    with pytest.raises(Unauthorized):
        check_token(vault, "door", forged)


def test_a_changed_letter_breaks_a_pass(vault: Vault) -> None:
    good = make_token(vault, "door", "dbx_1", 60)
    for place in (0, 5, len(good) - 5):
        letter = "A" if good[place] != "A" else "B"
        with pytest.raises(Unauthorized):
            check_token(vault, "door", good[:place] + letter + good[place + 1 :])
