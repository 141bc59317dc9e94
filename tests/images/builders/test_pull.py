"""Images of a registry, which for the tests is on this machine."""

import os
import shutil
import tarfile
from pathlib import Path

import pytest

from benchyard.errors import BuildFailed, UsageError
from benchyard.images.builders.base import BuiltImage
from benchyard.images.builders.choice import BuilderChoice
from benchyard.images.merged_view import MergedView
from benchyard.images.store import ImageIdentity
from tests.images.archives import oci_folder, put_manifest
from tests.images.builders.conftest import Yard
from tests.images.conftest import make_machine
from tests.images.registry import serving

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="buildah as an ordinary user needs ranges of ids")


@pytest.fixture
def layout(tmp_path: Path, busybox: Path) -> Path:
    with tarfile.open(tmp_path / "base.tar", "w") as tar:
        tar.add(busybox, ".")
    folder = tmp_path / "layout"
    manifest = put_manifest(folder, [(tmp_path / "base.tar").read_bytes()], history=[{"created_by": "test"}])
    return oci_folder(folder, manifest)


def test_an_image_is_pulled_and_built_on(yard: Yard, layout: Path) -> None:
    with serving(layout) as registry:
        reference = f"{registry}/team/busybox:1"
        image = yard.do(
            lambda _store, builder: builder.pull(reference, ImageIdentity("pulled"), yard.lines.append)
        )
        assert (image.user, image.working_directory, image.env["LANG"]) == ("daemon", "/srv", "C")
        assert MergedView(yard.layers(BuiltImage(image))).find("bin/busybox")
        again = f"{registry}/team/busybox:2"
        built = yard.build(f"FROM {again}\nUSER 0\nRUN echo x > /x\n")
    assert image.layers[-1] in built.image.layers
    assert MergedView(yard.layers(built)).read("x") == b"x\n"


def test_image_missing_in_a_registry_is_refused(yard: Yard, layout: Path) -> None:
    (layout / "index.json").write_text('{"manifests": [{"digest": "sha256:0"}]}')
    with serving(layout) as registry, pytest.raises(BuildFailed, match=r"cannot be had.*image alias"):
        yard.do(
            lambda _store, builder: builder.pull(f"{registry}/no:1", ImageIdentity("x"), yard.lines.append)
        )
    with pytest.raises(UsageError):
        yard.do(lambda _store, builder: builder.pull("No Reference", ImageIdentity("x"), yard.lines.append))


def test_a_path_that_no_engine_can_use_is_reported(tmp_path: Path, yard: Yard) -> None:
    odd = Yard(tmp_path / "a,b", yard.machine, yard.wanted)
    with pytest.raises(BuildFailed, match="cannot be built below"):
        odd.build("FROM scratch\n")


@pytest.mark.parametrize(
    ("kind", "words"), [("auto", "buildah or Docker"), ("buildah", "needs buildah"), ("docker", "by Docker")]
)
def test_without_an_engine_it_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, words: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    yard = Yard(tmp_path / "images", make_machine(tmp_path / "machine"), BuilderChoice(kind))
    with pytest.raises(BuildFailed, match=words):
        yard.build("FROM x\n")
    with pytest.raises(BuildFailed, match=words):
        yard.do(lambda _store, builder: builder.pull("x", ImageIdentity("x"), yard.lines.append))


def test_an_invalid_builder_is_refused(tmp_path: Path) -> None:
    yard = Yard(tmp_path / "images", make_machine(tmp_path / "machine"), BuilderChoice("make"))
    with pytest.raises(UsageError, match="choose one of auto, buildah, docker"):
        yard.build("FROM x\n")


PROGRAM = """#!/bin/sh
case "$1" in
version) echo '{answer}' ;;
info) echo '{{"DockerRootDir": "/x"}}' ;;
*) exit 1 ;;
esac
"""


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("{}", "systemctl start docker"),
        ('{"Server": {"Components": [{"Name": "Podman Engine"}]}}', "apt-get install buildah"),
        (
            '{"Client": {"Version": "28.2.2"}, "Server": {"Version": "28.2.2"}}',
            "apt-get install docker-buildx",
        ),
    ],
)
def test_a_docker_that_cannot_build_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, words: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/docker").write_text(PROGRAM.format(answer=answer))
    (tmp_path / "bin/docker").chmod(0o755)
    for name in ("unshare", "setpriv"):
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    yard = Yard(tmp_path / "images", make_machine(tmp_path / "machine"))
    with pytest.raises(BuildFailed, match=words) as caught:
        yard.build("FROM x\n")
    assert "apt-get install buildah runc" in caught.value.message
