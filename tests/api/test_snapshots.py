"""Disk snapshots over HTTP, and devboxes made from them."""

import uuid
from typing import Any

import httpx
import pytest

from tests.api.devbox import DevboxOverHttp, create, eventually, good, refusal


def snapshot(devbox: DevboxOverHttp, **request: Any) -> dict[str, Any]:
    return good(devbox.post("snapshot_disk", request))


def status(api: httpx.Client, id: str) -> dict[str, Any]:
    return good(api.get(f"/v1/devboxes/disk_snapshots/{id}/status"))


def listed(api: httpx.Client, **query: Any) -> list[str]:
    page = good(api.get("/v1/devboxes/disk_snapshots", params={"limit": 5000, **query}))
    return [each["id"] for each in page["snapshots"]]


def test_a_devbox_from_a_snapshot_has_its_files_and_goes_its_own_way(api: httpx.Client) -> None:
    first = create(api)
    first.run("echo shared > ~/file")
    taken = snapshot(first, name="base", commit_message="with a file", metadata={"k": "v"})
    assert taken["id"].startswith("snp_")
    assert (taken["name"], taken["commit_message"], taken["metadata"]) == ("base", "with a file", {"k": "v"})
    assert (taken["source_devbox_id"], taken["size_bytes"] > 0) == (first.id, True)
    first.run("echo changed > ~/file")
    second = create(api, snapshot_id=taken["id"])
    assert second.view()["snapshot_id"] == taken["id"]
    assert second.run("cat ~/file")["stdout"] == "shared\n"
    second.run("echo mine > ~/file")
    third = create(api, snapshot_id=taken["id"])
    assert third.run("cat ~/file")["stdout"] == "shared\n"
    for devbox in (first, second, third):
        devbox.post("shutdown")


def test_a_snapshot_taken_in_the_background_can_be_asked_about(devbox: DevboxOverHttp) -> None:
    api = devbox.api
    taken = good(devbox.post("snapshot_disk_async", {"name": "later"}))
    assert status(api, taken["id"])["status"] in ("in_progress", "complete")
    eventually(lambda: status(api, taken["id"])["status"] == "complete", "the snapshot to be complete")
    view = status(api, taken["id"])
    assert (view["snapshot"]["id"], view["snapshot"]["name"]) == (taken["id"], "later")
    assert view["error_message"] is None


def test_the_same_request_takes_one_snapshot(devbox: DevboxOverHttp) -> None:
    headers = {"x-request-id": "snap-once"}
    first = good(devbox.post("snapshot_disk", {"name": "one"}, headers=headers))
    assert good(devbox.post("snapshot_disk", {"name": "one"}, headers=headers)) == first
    assert refusal(devbox.post("snapshot_disk", {"name": "two"}, headers=headers), 400)


def test_snapshots_are_listed_by_devbox_and_metadata(devbox: DevboxOverHttp) -> None:
    api, mark = devbox.api, uuid.uuid4().hex
    one = snapshot(devbox, metadata={"mark": mark, "colour": "red"})["id"]
    two = snapshot(devbox, metadata={"mark": mark, "colour": "blue"})["id"]
    assert listed(api, devbox_id=devbox.id)[:2] == [two, one]
    assert listed(api, devbox_id="dbx_other") == []
    assert listed(api, **{"metadata[mark]": mark, "metadata[colour]": "red"}) == [one]
    assert listed(api, **{"metadata[mark]": mark, "metadata[colour][in]": "red,blue"}) == [two, one]
    assert "colour" in good(api.get("/v1/devboxes/disk_snapshots/metadata/keys"))["keys"]
    values = good(api.get("/v1/devboxes/disk_snapshots/metadata/keys/mark/values"))["values"]
    assert mark in values
    assert good(api.get("/v1/devboxes/disk_snapshots/list_public"))["snapshots"] == []


def test_a_snapshot_can_be_renamed(devbox: DevboxOverHttp) -> None:
    taken = snapshot(devbox, name="old", metadata={"a": "b"})
    url = f"/v1/devboxes/disk_snapshots/{taken['id']}"
    changed = good(devbox.api.post(url, json={"name": "new", "metadata": None}))
    assert (changed["name"], changed["metadata"]) == ("new", {"a": "b"})
    assert good(devbox.api.post(url, json={"metadata": {}}))["metadata"] == {}


def test_a_deleted_snapshot_is_gone_but_devboxes_on_it_live_on(api: httpx.Client) -> None:
    source = create(api)
    source.run("echo kept > ~/file")
    taken = snapshot(source)
    child = create(api, snapshot_id=taken["id"])
    url = f"/v1/devboxes/disk_snapshots/{taken['id']}"
    assert good(api.post(f"{url}/delete")) == {}
    assert status(api, taken["id"])["status"] == "deleted"
    assert taken["id"] not in listed(api)
    assert "no snapshot" in refusal(api.post("/v1/devboxes", json={"snapshot_id": taken["id"]}), 404)
    assert refusal(api.post(url, json={"name": "x"}), 400)
    assert good(api.post(f"{url}/delete")) == {}
    good(child.post("suspend"))
    child.reaches("suspended")
    child.post("resume")
    child.reaches("running")
    assert child.run("cat ~/file")["stdout"] == "kept\n"
    for devbox in (source, child):
        devbox.post("shutdown")


def test_a_suspended_devbox_can_be_snapshotted(api: httpx.Client) -> None:
    devbox = create(api)
    devbox.run("echo asleep > ~/file")
    devbox.post("suspend")
    devbox.reaches("suspended")
    copy = create(api, snapshot_id=snapshot(devbox)["id"])
    assert copy.run("cat ~/file")["stdout"] == "asleep\n"
    for each in (devbox, copy):
        each.post("shutdown")


def test_an_ended_devbox_cannot_be_snapshotted(api: httpx.Client) -> None:
    devbox = create(api)
    devbox.post("shutdown")
    answer = devbox.post("snapshot_disk", {})
    assert "ended" in refusal(answer, 409)
    assert answer.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("body", [{"name": 5}, {"commit_message": "x" * 1001}, {"metadata": "x"}])
def test_a_snapshot_with_wrong_fields_is_400(devbox: DevboxOverHttp, body: dict[str, Any]) -> None:
    assert refusal(devbox.post("snapshot_disk", body), 400)


def test_an_unknown_snapshot_is_404(api: httpx.Client) -> None:
    url = "/v1/devboxes/disk_snapshots/snp_unknown"
    assert refusal(api.get(f"{url}/status"), 404)
    assert refusal(api.post(url, json={"name": "x"}), 404)
    assert refusal(api.post(f"{url}/delete"), 404)
