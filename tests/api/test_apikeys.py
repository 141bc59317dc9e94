"""Keys are made, listed, revoked, and expire."""

import time

import httpx
from runloop_api_client import Runloop

from benchyard.testing.server import RunningServer


def opens(api: httpx.Client, secret: str) -> bool:
    return api.get("/v1/accounts/me", headers={"authorization": f"Bearer {secret}"}).status_code == 200


def test_a_new_key_opens_until_it_is_revoked(api: httpx.Client) -> None:
    made = api.post("/v1/apikeys", json={"name": "ci"}).json()
    assert opens(api, made["key_secret"])
    revoked = api.post(f"/v1/apikeys/{made['id']}/revoke").json()
    assert revoked["revoked_at_ms"] > 0
    assert not opens(api, made["key_secret"])
    assert api.post(f"/v1/apikeys/{made['id']}/revoke").json() == revoked


def test_a_key_opens_until_it_expires(api: httpx.Client) -> None:
    soon = int(time.time() * 1000) + 1500
    secret = api.post("/v1/apikeys", json={"expires_at_ms": float(soon)}).json()["key_secret"]
    assert opens(api, secret)
    deadline = time.monotonic() + 30
    while opens(api, secret):
        assert time.monotonic() < deadline
    assert time.time() * 1000 >= soon


def test_listings_never_show_a_secret(api: httpx.Client) -> None:
    made = api.post("/v1/apikeys", json={"name": "listed"}).json()
    listing = api.get("/v1/apikeys", params={"limit": 1})
    assert listing.json()["apikeys"][0]["id"] == made["id"]
    assert made["key_secret"] not in listing.text


def test_secrets_are_not_kept_as_they_are(fake_server: RunningServer, api: httpx.Client) -> None:
    secret = api.post("/v1/apikeys", json={"name": "at rest"}).json()["key_secret"]
    kept = b"".join(file.read_bytes() for file in fake_server.data.glob("benchyard.db*"))
    assert secret.encode() not in kept
    assert fake_server.key.encode() not in kept
    assert b"at rest" in kept


def test_the_official_client_makes_keys(fake_server: RunningServer) -> None:
    client = Runloop(base_url=fake_server.url, bearer_token=fake_server.key)
    made = client.apikeys.create(name="sdk")
    assert made.key_secret is not None
    again = Runloop(base_url=fake_server.url, bearer_token=made.key_secret)
    assert again.accounts.me().account_status == "ACCOUNT_STATUS_ENABLED"


def test_an_unknown_key_cannot_be_revoked(api: httpx.Client) -> None:
    assert api.post("/v1/apikeys/key_unknown/revoke").status_code == 404
