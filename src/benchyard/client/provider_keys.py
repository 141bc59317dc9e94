"""Makes secrets of the caller's model provider keys for the agents that use them.

A secret cannot be read back, so a salted hash of the last sent value is kept in the user's configuration
folder, to tell a changed key from the same one. A value is never printed and never kept.
"""

import base64
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchyard.agents import catalog
from benchyard.client.job_request import Body
from benchyard.client.nouns import SyncNouns
from benchyard.models.secrets import SecretView

PREFIX = "BMJ_"
_FILE = "job-keys.json"
_LARGEST_FILE = 1024**2


def with_known_keys(
    client: SyncNouns, body: Body, environ: Mapping[str, str], tell: Callable[[str], None]
) -> Body:
    """Return the body with a secret for each key that an agent needs and lacks; makes and changes secrets."""
    wanted = _open_keys_of_body(body)
    if not wanted:
        return body
    keeper = _KeyMemory(client, environ, tell)
    there = {name for name in sorted(wanted) if keeper.bring(name)}
    keeper.close()
    return _with_secrets(body, there)


def with_pending_keys(client: SyncNouns, body: Body, environ: Mapping[str, str]) -> tuple[Body, list[str]]:
    """Return the body as `with_known_keys` would, and the names of the secrets to make; changes nothing."""
    wanted = _open_keys_of_body(body)
    if not wanted:
        return body, []
    stored = {view.name for view in client.secrets.list()}
    there = {name for name in wanted if environ.get(name) or PREFIX + name in stored}
    return _with_secrets(body, there), sorted(PREFIX + name for name in there if PREFIX + name not in stored)


def _open_keys_of_body(body: Body) -> set[str]:
    agents: list[Body] = body["spec"].get("agent_configs") or []
    return {name for agent in agents for name in _open_keys(agent)}


def _with_secrets(body: Body, there: set[str]) -> Body:
    agents: list[Body] = body["spec"].get("agent_configs") or []
    return {
        **body,
        "spec": {**body["spec"], "agent_configs": [_agent_with_secrets(agent, there) for agent in agents]},
    }


def _open_keys(agent: Body) -> list[str]:
    """Return the key variables that an agent lacks; secrets made here for another job count as lacking."""
    environment = agent.get("agent_environment") or {}
    stored = environment.get("secrets") or {}
    chosen = {name for name, secret in stored.items() if secret != PREFIX + name}
    given = {*(environment.get("environment_variables") or {}), *chosen}
    found = catalog.keys_of(str(agent.get("name"))).values()
    names = list(dict.fromkeys(name for each in found for name in each))
    return [] if given & set(names) else names


def _agent_with_secrets(agent: Body, there: set[str]) -> Body:
    names = _open_keys(agent)
    brought = {name: PREFIX + name for name in names if name in there}
    if not brought:
        # The server knows whether a key is needed, and names it.
        return agent
    environment = agent.get("agent_environment") or {}
    secrets_ = {**(environment.get("secrets") or {}), **brought}
    return {**agent, "agent_environment": {**environment, "secrets": secrets_}}


class _KeyMemory:
    """Sends keys to the server, and remembers hashes of the keys that were sent."""

    def __init__(self, client: SyncNouns, environ: Mapping[str, str], tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._client = client
        self._environ = environ
        self._there = {view.name: view for view in client.secrets.list()}
        self._path = config_folder(environ) / _FILE
        self._known = _read(self._path)
        self._changed = False

    def bring(self, variable: str) -> bool:
        """Send the caller's key for a variable if it is new; return whether the server has its secret."""
        name, value = PREFIX + variable, self._environ.get(variable)
        held = self._there.get(name)
        if not value:
            return held is not None
        place = f"{self._client.server.url} {name}"
        if held is None:
            self._remember(place, self._client.secrets.create(name, value), value)
            self._tell(f"made the secret {name} from ${variable}")
        elif not self._is_same(place, held, value):
            self._remember(place, self._client.secrets.update(name, value), value)
            self._tell(f"updated the secret {name} from ${variable}")
        return True

    def close(self) -> None:
        """Save the remembered digests."""
        if self._changed:
            _write(self._path, self._known, self._tell)

    def _is_same(self, place: str, held: SecretView, value: str) -> bool:
        """Tell whether the stored secret is the same key; a different update time means another change."""
        known = self._known.get(place)
        if not isinstance(known, dict) or known.get("update_time_ms") != held.update_time_ms:
            return False
        with suppress(KeyError, TypeError, ValueError):
            salt = base64.b64decode(known["salt"])
            return hmac.compare_digest(base64.b64decode(known["hash"]), _hash(value, salt))
        return False

    def _remember(self, place: str, view: SecretView, value: str) -> None:
        salt = secrets.token_bytes(16)
        self._known[place] = {
            "salt": base64.b64encode(salt).decode(),
            "hash": base64.b64encode(_hash(value, salt)).decode(),
            "update_time_ms": view.update_time_ms,
        }
        self._changed = True


def config_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of this user's own settings."""
    given = environ.get("XDG_CONFIG_HOME")
    base = Path(given) if given else Path(environ.get("HOME") or Path.home()) / ".config"
    return base / "benchyard"


def _hash(value: str, salt: bytes) -> bytes:
    """Return a hash that is slow on purpose, so that a short key cannot be found by trying."""
    return hashlib.scrypt(value.encode(errors="surrogateescape"), salt=salt, n=2**14, r=8, p=1, dklen=32)


def _read(path: Path) -> dict[str, Any]:
    """Return the remembered hashes; an unreadable file only means that keys are sent once more."""
    try:
        if path.stat().st_size > _LARGEST_FILE:
            return {}
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, known: dict[str, Any], tell: Callable[[str], None]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(known, file)
        beside.replace(path)
    except OSError as error:
        tell(f"{path} cannot be written ({error.strerror}); keys are sent each time")
