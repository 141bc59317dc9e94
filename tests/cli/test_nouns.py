"""`benchyard secret`, `object`, `key`, `image` and `doctor` against a real server."""

import json
import secrets
from pathlib import Path

import pytest

from benchyard.client import Client
from benchyard.client.resources.objects import content_type
from benchyard.models.account import ApiKeyRequest
from benchyard.testing.server import RunningServer
from tests.cli.conftest import CommandLine


def test_a_secret_is_set_changed_and_removed(benchyard: CommandLine) -> None:
    name = f"S{secrets.token_hex(4)}"
    first = json.loads(benchyard.ok("secret", "set", name, "--value", "one", "-o", "json"))
    again = json.loads(benchyard.ok("secret", "set", name, "-o", "json", typed=b"two\n"))
    assert first["id"] == again["id"]
    assert name in benchyard.ok("secret", "list")
    assert benchyard.ok("secret", "delete", name) == f"{name}  deleted\n"
    assert name not in benchyard.ok("secret", "list", "-o", "json")
    assert benchyard("secret", "delete", name).status == 4


def test_a_secret_is_read_from_standard_input_when_that_is_said(benchyard: CommandLine) -> None:
    name = f"S{secrets.token_hex(4)}"
    value = secrets.token_hex(16)
    said = benchyard.ok("secret", "set", name, "--stdin", "-o", "json", typed=f"{value}\n".encode())
    assert json.loads(said)["name"] == name
    assert value not in said + benchyard.ok("secret", "list", "-o", "json")
    both = benchyard("secret", "set", name, "--stdin", "--value", "x", typed=b"y")
    assert both.status == 2
    benchyard.ok("secret", "delete", name)


def test_a_secret_without_a_value_changes_nothing(benchyard: CommandLine) -> None:
    assert benchyard("secret", "set", "EMPTY", typed=b"").status == 2
    assert "EMPTY" not in benchyard.ok("secret", "list", "-o", "json")


def test_an_object_goes_up_and_down(
    benchyard: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = secrets.token_bytes(1_500_000)
    (tmp_path / "data.tgz").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    made = json.loads(
        benchyard.ok("object", "upload", "data.tgz", "--metadata", "a=b", "--ttl", "60", "-o", "json")
    )
    assert (made["state"], made["content_type"], made["metadata"]) == ("READ_ONLY", "tgz", {"a": "b"})
    assert "READ_ONLY" in benchyard.ok("object", "list", "--name", "data.tgz")
    assert "1.4 MiB" in benchyard.ok("object", "show", made["id"])
    benchyard.ok("object", "download", made["id"], "back")
    assert (tmp_path / "back").read_bytes() == content
    assert benchyard("object", "download", made["id"]).status == 2
    assert benchyard.ok("object", "delete", made["id"]).endswith("deleted\n")


def test_standard_input_becomes_an_object_and_comes_back(benchyard: CommandLine) -> None:
    made = json.loads(
        benchyard.ok("object", "upload", "-", "--name", "piped.txt", "-o", "json", typed=b"text\n")
    )
    assert benchyard.ok("object", "download", made["id"], "-") == "text\n"
    assert benchyard("object", "upload", "-", typed=b"text\n").status == 2


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.tar.gz", "tgz"), ("a.gz", "gzip"), ("a.tar", "tar"), ("a.md", "text"), ("a", "binary")],
)
def test_the_ending_of_a_name_decides_its_content_type(name: str, kind: str) -> None:
    assert content_type(name) == kind


def test_a_new_key_opens_the_server_until_it_is_revoked(
    benchyard: CommandLine, fake_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = json.loads(benchyard.ok("key", "create", "--name", "guest", "--days", "1", "-o", "json"))
    monkeypatch.setenv("BENCHYARD_API_KEY", made["key_secret"])
    assert "guest" in benchyard.ok("key", "list")
    monkeypatch.setenv("BENCHYARD_API_KEY", fake_server.key)
    assert benchyard.ok("key", "revoke", made["id"]).endswith("revoked\n")
    monkeypatch.setenv("BENCHYARD_API_KEY", made["key_secret"])
    ended = benchyard("key", "list")
    assert ended.status == 3
    assert made["key_secret"] not in ended.err


def test_a_key_that_is_over_is_shown_as_expired(benchyard: CommandLine, client: Client) -> None:
    made = client.keys.create(ApiKeyRequest(name="old", expires_at_ms=1))
    row = next(line for line in benchyard.ok("key", "list").splitlines() if line.startswith(made.id))
    assert row.endswith("expired")


def test_only_the_secret_of_a_new_key_is_on_standard_output(benchyard: CommandLine) -> None:
    ended = benchyard("key", "create")
    assert len(ended.out.split()) == 1
    assert "not shown again" in ended.err


def test_a_folder_becomes_an_image(benchyard: CommandLine, tmp_path: Path) -> None:
    name = f"image-{secrets.token_hex(4)}"
    (tmp_path / "rootfs" / "etc").mkdir(parents=True)
    (tmp_path / "rootfs" / "etc" / "mark").write_text("mine")
    made = json.loads(benchyard.ok("image", "import", str(tmp_path / "rootfs"), "--name", name, "-o", "json"))
    assert name in benchyard.ok("image", "list")
    assert f"id:      {made['id']}" in benchyard.ok("image", "show", name)
    assert benchyard.ok("image", "delete", name) == f"{name}  deleted\n"
    assert benchyard("image", "show", name).status == 4


def test_invalid_image_is_refused(benchyard: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_text("not an archive")
    ended = benchyard("image", "import", str(tmp_path / "image.tar"))
    assert ended.status == 11
    assert benchyard("image", "import", str(tmp_path / "image.tar"), "--name", "no good name").status == 2


def test_the_doctor_asks_the_server(benchyard: CommandLine) -> None:
    told = json.loads(benchyard("doctor", "-o", "json").out)
    found = {each["name"]: each["found"] for each in told["findings"]}
    assert found["server"].endswith("driver fake")
    assert "buildah" in found["dockerfiles"]


def test_the_doctor_lists_leaks(
    benchyard: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BENCHYARD_DATA", str(tmp_path))
    assert "nothing is left" in benchyard.ok("doctor", "--leaks")
    (tmp_path / "host" / "devboxes" / "dbx_1").mkdir(parents=True)
    ended = benchyard("doctor", "--leaks", "-o", "json")
    assert ended.status == 1
    told = json.loads(ended.out)
    assert not told["ok"]
    assert [leak["kind"] for leak in told["leaks"]] == ["folder"]


def test_the_doctor_works_without_a_server(benchyard: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHYARD_URL", "http://127.0.0.1:9")
    assert "kernel" in benchyard("doctor", "--no-server").out


def test_an_image_is_aliased_pinned_and_collected(benchyard: CommandLine, tmp_path: Path) -> None:
    root = tmp_path / "aged"
    (root / "etc").mkdir(parents=True)
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    benchyard.ok("image", "import", str(root), "--name", "aged")
    assert "docker.io/library/debian:12" in benchyard.ok("image", "alias", "debian:12", "aged")
    assert "aged" in benchyard.ok("image", "alias")
    assert benchyard("image", "alias", "debian:12").status == 2
    assert benchyard.ok("image", "unalias", "debian:12") == "debian:12  removed\n"
    assert benchyard.ok("image", "pin", "aged") == "aged  pinned\n"
    assert "pinned" in benchyard.ok("image", "show", "aged")
    assert "aged" not in benchyard.ok("image", "gc", "--max-size", "0")
    benchyard.ok("image", "unpin", "aged")
    assert benchyard("image", "gc", "--max-size", "much").status == 2
    done = json.loads(benchyard.ok("image", "gc", "--max-size", "0.5KiB", "-o", "json"))
    assert "aged" in done["removed"]
    assert benchyard("image", "pull", "registry.invalid/x:1").status == 11
