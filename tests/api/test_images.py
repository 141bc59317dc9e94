"""Images and the server's own findings over HTTP."""

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


def test_what_is_no_image_is_refused(api: httpx.Client, tmp_path: Path) -> None:
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
