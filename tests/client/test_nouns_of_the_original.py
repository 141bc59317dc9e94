"""Nouns and methods that a script of the original SDK uses, against a real server."""

import inspect
from pathlib import Path

import pytest

from benchyard import Benchyard
from benchyard.errors import NotFound, NotYet, UsageError
from tests.client.scenes import PATIENCE_SECONDS


def test_a_devbox_is_suspended_resumed_and_kept(yard: Benchyard) -> None:
    box = yard.devbox.create(name="moved")
    assert box.suspend(timeout=PATIENCE_SECONDS).status == "suspended"
    assert box.await_suspended(timeout=PATIENCE_SECONDS).status == "suspended"
    assert box.resume_async().id == box.id
    assert box.await_running(timeout=PATIENCE_SECONDS).status == "running"
    assert box.get_tunnel() is None
    assert box.get_tunnel_url(8080) is None
    tunnel = box.net.enable_tunnel(auth_mode="open")
    assert tunnel.tunnel_key in str(box.get_tunnel_url(8080))
    box.net.remove_tunnel()
    assert box.net.create_ssh_key().ssh_private_key.startswith("-----BEGIN")
    box.cmd.exec("echo said")
    assert "said" in [line.message for line in box.logs().logs]
    snapshot = box.snapshot_disk_async(name="begun")
    assert snapshot.await_completed(timeout=PATIENCE_SECONDS).status == "complete"
    assert snapshot.id in [each.id for each in yard.snapshot.list(devbox_id=box.id)]
    assert snapshot.update(name="renamed").name == "renamed"
    again = yard.snapshot.from_id(snapshot.id).create_devbox(name="again")
    again.close()
    box.close()
    assert box.get_info().status == "shutdown"
    snapshot.delete()


def test_callbacks_get_the_output_of_a_command(yard: Benchyard) -> None:
    with yard.devbox.create() as box:
        heard: list[str] = []
        errors: list[str] = []
        begun = box.cmd.exec_async(
            "echo one; echo two >&2; echo three", stdout=heard.append, stderr=errors.append
        )
        result = begun.result(timeout=PATIENCE_SECONDS)
        assert (result.exit_code, "".join(heard), "".join(errors)) == (0, "one\nthree\n", "two\n")

        def refuse(text: str) -> None:
            raise ValueError(f"refused {text!r}")

        with pytest.raises(ValueError, match="refused 'x"):
            box.cmd.exec_async("echo x", output=refuse).result()


def test_options_of_a_request_are_taken_by_every_method(yard: Benchyard) -> None:
    key = "benchyard-once"
    first = yard.secret.create("OPTION_ONCE", "a value that is long enough", idempotency_key=key)  # type: ignore[call-arg]
    again = yard.secret.create("OPTION_ONCE", "a value that is long enough", idempotency_key=key)  # type: ignore[call-arg]
    assert first.id == again.id
    told = first.get_info(timeout=30, extra_headers={"X-Some": "thing"}, extra_query={"a": "b"})  # type: ignore[call-arg]
    assert told.name == "OPTION_ONCE"
    first.delete()
    with pytest.raises(TypeError, match="unknown_option"):
        first.get_info(unknown_option=1)  # type: ignore[call-arg]


def test_secrets_policies_and_gateways_are_objects(yard: Benchyard) -> None:
    secret = yard.secret.create("MOVED_TOKEN", "a value that is long enough")
    assert yard.secret.from_name("MOVED_TOKEN").update("another value, long enough").name == "MOVED_TOKEN"
    assert "MOVED_TOKEN" in [each.name for each in yard.secret.list()]
    yard.secret.delete(secret)
    with pytest.raises(NotFound, match="MOVED_TOKEN"):
        secret.get_info()
    policy = yard.network_policy.create(name="moved-policy", allowed_hostnames=["pypi.org"])
    assert policy.update(description="packages").description == "packages"
    assert policy.id in [each.id for each in yard.network_policy.list(name="moved-policy")]
    policy.delete()
    gateway = yard.gateway_config.create(
        name="moved-gateway", endpoint="https://api.example.com", auth_mechanism={"type": "bearer"}
    )
    assert gateway.update(description="an API").description == "an API"
    assert gateway.id in [each.id for each in yard.gateway_config.list(name="moved-gateway")]
    gateway.delete()


def test_objects_are_stored_from_files_folders_text_and_bytes(yard: Benchyard, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("from a file")
    (tmp_path / "secret").write_text("left out")
    kept = yard.storage_object.upload_from_file(tmp_path / "notes.txt", metadata={"a": "b"})
    assert (kept.refresh().content_type, kept.download_as_text()) == ("text", "from a file")
    folder = yard.storage_object.upload_from_dir(
        tmp_path, ignore=lambda member: None if member.name == "secret" else member
    )
    assert folder.as_build_context() == {"type": "object", "object_id": folder.id}
    assert b"left out" not in folder.download_as_bytes()
    text = yard.storage_object.upload_from_text("a text", "text.txt")
    assert text.download_as_bytes() == b"a text"
    raw = yard.storage_object.upload_from_bytes(b"\0\1", "raw", content_type="binary")
    assert raw.get_download_url(duration_seconds=60).download_url
    made = yard.storage_object.create(name="by hand", content_type="binary")
    made.upload_content("by hand")
    made.complete()
    assert made.download_as_text() == "by hand"
    with pytest.raises(UsageError, match="is complete"):
        made.upload_content("twice")
    assert made.id in [each.id for each in yard.storage_object.list(name="by hand")]
    for each in (kept, folder, text, raw, made):
        each.delete()
    with pytest.raises(UsageError, match="there is no file"):
        yard.storage_object.upload_from_file(tmp_path / "nothing")


def test_unsupported_nouns_raise_not_yet(yard: Benchyard) -> None:
    with pytest.raises(NotYet, match="axons are not supported"):
        yard.axon.create(name="a")
    with pytest.raises(NotYet, match="MCP configs are not supported"):
        yard.mcp_config.list()


def test_help_names_the_parameters_and_views_are_short(yard: Benchyard) -> None:
    with Benchyard("http://127.0.0.1:9", "key_of_nobody") as other:
        box = other.devbox.create
        assert {"name", "blueprint_id", "timeout"} <= set(inspect.signature(box).parameters)
        assert box.__name__ == "create"
    built = yard.scenario.builder("short-repr").with_problem_statement("words " * 500)
    built.add_shell_command_scorer("one", command="true").with_reference_output("the solution " * 200)
    view = built.push().get_info()
    assert len(repr(view)) <= 120
    assert "the solution" not in repr(view)
    assert view.id in repr(view)
