"""Images and the server's own findings over HTTP."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.api.devbox import good, refusal


def test_the_default_image_is_this_machine(api: httpx.Client) -> None:
    images = good(api.get("/v1/images"))["images"]
    assert "host" in [image["id"] for image in images]
    assert good(api.get("/v1/images/host"))["kind"] == "host"
    assert "default" in refusal(api.post("/v1/images/host/delete"), 400)


def test_a_folder_can_be_imported_named_and_deleted(api: httpx.Client, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("etc", "home", "usr/bin", "tmp"):
        (root / name).mkdir(parents=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "usr/bin/sh").write_text("")
    made = good(api.post("/v1/images/import", json={"name": "small", "path": str(root)}))
    assert (made["name"], made["kind"]) == ("small", "image")
    assert good(api.get("/v1/images/small"))["id"] == made["id"]
    for source in ({"blueprint_name": "small"}, {"blueprint_id": made["id"]}):
        # The fake driver shows this machine's own system only.
        assert "images" in refusal(api.post("/v1/devboxes", json=source), 400)
    assert good(api.post(f"/v1/images/{made['id']}/delete")) == {}
    assert refusal(api.get(f"/v1/images/{made['id']}"), 404)


def test_an_import_that_is_asked_for_twice_is_done_once(api: httpx.Client, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    body = {"name": "twice", "path": str(root)}

    def ask(**changes: str) -> httpx.Response:
        headers = {"x-request-id": "import-twice"}
        return api.post("/v1/images/import", json={**body, **changes}, headers=headers)

    with ThreadPoolExecutor(4) as pool:
        made = {good(answer)["id"] for answer in pool.map(lambda _: ask(), range(4))}
    assert len(made) == 1
    shutil.rmtree(root)
    assert good(ask())["id"] in made
    assert "another body" in refusal(ask(name="other"), 400)
    assert [image["name"] for image in good(api.get("/v1/images"))["images"]].count("twice") == 1
    assert good(api.post(f"/v1/images/{made.pop()}/delete")) == {}
    assert "--import-from" in refusal(ask(), 400)


def test_invalid_image_is_refused(api: httpx.Client, tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense.tar"
    nonsense.write_bytes(b"nonsense" * 100)
    before = good(api.get("/v1/images"))
    for body, status in [
        ({"name": "x", "path": str(nonsense)}, 400),
        ({"name": "x", "path": "relative"}, 400),
        ({"name": "x", "path": "/no/such/file"}, 400),
        ({"name": "x"}, 400),
        ({"name": "x", "path": "/a", "object_id": "obj_b"}, 400),
        ({"name": "../x", "path": str(nonsense)}, 400),
        ({"name": "x", "object_id": "obj_unknown"}, 404),
    ]:
        assert refusal(api.post("/v1/images/import", json=body), status)
    assert refusal(api.post("/v1/images/debian", json={"suite": "../x"}), 400)
    assert refusal(api.get("/v1/images/unknown"), 404)
    assert refusal(api.post("/v1/images/unknown/delete"), 404)
    assert good(api.get("/v1/images")) == before


def test_the_doctor_tells_driver_and_capabilities(api: httpx.Client) -> None:
    found = good(api.get("/v1/doctor"))
    assert found["driver"] == "fake"
    assert "pty" in found["capabilities"]
    missing = {each["capability"]: each["remedy"] for each in found["missing"]}
    assert missing["isolation"]
    assert not set(found["capabilities"]) & missing.keys()


def imported(api: httpx.Client, tmp_path: Path, name: str) -> str:
    root = tmp_path / name
    (root / "etc").mkdir(parents=True)
    (root / "etc/passwd").write_text(f"root:x:0:0:{name}:/root:/bin/sh\n")
    return str(good(api.post("/v1/images/import", json={"name": name, "path": str(root)}))["id"])


def test_an_image_stands_in_for_a_reference(api: httpx.Client, tmp_path: Path) -> None:
    imported(api, tmp_path, "stand-in")
    made = good(api.post("/v1/images/aliases", json={"reference": "ubuntu:22.04", "image": "stand-in"}))
    assert made == {"reference": "docker.io/library/ubuntu:22.04", "image": "stand-in"}
    assert made in good(api.get("/v1/images/aliases"))["aliases"]
    for body, status in [
        ({"reference": "ubuntu", "image": "nothing"}, 404),
        ({"reference": "ubuntu", "image": "host"}, 400),
        ({"reference": "Not This", "image": "stand-in"}, 400),
    ]:
        assert refusal(api.post("/v1/images/aliases", json=body), status)
    assert good(api.get("/v1/images/aliases"))["aliases"] == [made]
    removal = {"reference": "docker.io/ubuntu:22.04"}
    assert good(api.post("/v1/images/aliases/delete", json=removal)) == {}
    assert "no alias" in refusal(api.post("/v1/images/aliases/delete", json=removal), 404)
    assert good(api.post("/v1/images/stand-in/delete")) == {}


def test_pinned_images_stay_and_others_are_collected(api: httpx.Client, tmp_path: Path) -> None:
    kept, gone = imported(api, tmp_path, "kept"), imported(api, tmp_path, "gone")
    assert good(api.post("/v1/images/kept/pin"))["pinned"] is True
    assert "how much may stay" in refusal(api.post("/v1/images/collect", json={}), 400)
    refusal(api.post("/v1/images/collect", json={"max_bytes": -1}), 400)
    done = good(api.post("/v1/images/collect", json={"max_bytes": 0}))
    assert "gone" in done["removed"]
    assert "kept" not in done["removed"]
    assert done["freed_bytes"] > 0
    assert good(api.get(f"/v1/images/{kept}"))["last_used_ms"] > 0
    refusal(api.get(f"/v1/images/{gone}"), 404)
    assert good(api.post("/v1/images/kept/unpin"))["pinned"] is False
    assert good(api.post("/v1/images/kept/delete")) == {}


def test_an_image_that_cannot_be_pulled_says_why(api: httpx.Client) -> None:
    before = good(api.get("/v1/images"))
    told = refusal(api.post("/v1/images/pull", json={"reference": "registry.invalid/x:1"}), 400)
    assert "cannot be had" in told or "apt-get install buildah" in told
    assert refusal(api.post("/v1/images/pull", json={"reference": "No Reference", "name": "x"}), 400)
    assert good(api.get("/v1/images")) == before


def test_a_stand_in_is_refused_where_nothing_can_be_one(api: httpx.Client) -> None:
    before = good(api.get("/v1/images"))
    for reference, told in {
        "alpine:3": "image alias alpine:3",
        "python:3.70": "uv python install 3.70",
    }.items():
        assert told in refusal(api.post("/v1/images/stand-in", json={"reference": reference}), 400)
    assert good(api.get("/v1/images")) == before
    assert good(api.get("/v1/doctor"))["stand_ins"] == []
