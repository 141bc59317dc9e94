"""Ids: a prefix for the kind of thing, and 21 characters that cannot be guessed."""

import secrets

from benchyard.store.vault import Vault

_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LENGTH = 21
_SPAN = len(_LETTERS) ** _LENGTH


def id_from_bytes(prefix: str, source: bytes) -> str:
    """Return the id made of these bytes (at least 16, evenly distributed)."""
    number = int.from_bytes(source, "big") % _SPAN
    letters = []
    for _ in range(_LENGTH):
        number, rest = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[rest])
    return prefix + "".join(letters)


def account_id(vault: Vault) -> str:
    """Return the id of the account that owns everything on a server."""
    return id_from_bytes("acc_", vault.derive("account"))


def random_id(prefix: str) -> str:
    """Return a new random id."""
    return id_from_bytes(prefix, secrets.token_bytes(32))


def is_well_formed(id: str, prefix: str) -> bool:
    """Tell whether an id has this prefix and the form that this server gives."""
    letters = id.removeprefix(prefix)
    return id.startswith(prefix) and len(letters) == _LENGTH and set(letters) <= set(_LETTERS)
