"""Devboxes that start from what was built, in a real server with the native driver."""

import asyncio
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchyard.client import Client, Server
from benchyard.devboxes.local_trees import LocalTrees
from benchyard.hosts import leaks
from benchyard.hosts.build_cgroups import BuildCgroups
from benchyard.images.builders.base import BuildRecipe, BuiltImage
from benchyard.images.builders.choice import open_builder
from benchyard.images.debian import make_debian
from benchyard.images.store import ImageIdentity, ImageStore
from benchyard.models.blueprints import BlueprintRequest
from benchyard.models.devboxes import DevboxRequest
from benchyard.testing.server import RunningServer
from tests.images.builders.conftest import BASE

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="buildah as an ordinary user needs ranges of ids")

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


@contextmanager
def serving(data: Path) -> Iterator[Client]:
    with RunningServer(data) as server, Client(Server(server.url, server.key)) as client:
        yield client
    assert leaks.find(data) == []


async def opened(data: Path) -> ImageStore:
    data.mkdir(mode=0o700)
    store = ImageStore(data / "images", LocalTrees())
    await store.open()
    return store


async def build(store: ImageStore, data: Path, recipe: BuildRecipe) -> BuiltImage:
    builder = await open_builder(store, data / "images", LocalTrees(), BuildCgroups(data / "images"))
    return await builder.build(recipe, ImageIdentity("made"), lambda _line: None)


def test_a_devbox_starts_from_what_was_built(tmp_path: Path, busybox: Path) -> None:
    dockerfile = f"""FROM {BASE} AS build
RUN <<EOF
mkdir -p /out/dir /gone
echo made > /out/file
touch /out/dir/a
EOF
FROM {BASE}
ENV COLOUR=blue
COPY --from=build --chown=1000:1000 /out /out
RUN rm -r /out/dir && mkdir /out/dir && rm /bin/vi
WORKDIR /out
"""

    async def scene() -> None:
        store = await opened(tmp_path / "data")
        await store.import_archive(busybox, BASE)
        await build(store, tmp_path / "data", BuildRecipe(dockerfile))

    asyncio.run(scene())
    request = DevboxRequest(blueprint_name="made")
    with serving(tmp_path / "data") as client, client.devboxes.open(request) as devbox:
        told = devbox.run(
            "cat /out/file; ls /out/dir | wc -l; test -e /bin/vi || echo no vi; whoami; echo $COLOUR"
        )
        assert told.stdout == "made\n0\nno vi\nuser\nblue\n"
        assert devbox.run("echo more > /out/more && cat /out/more").stdout == "more\n"


@pytest.mark.slow
def test_packages_of_debian_and_python_are_installed_in_stages(tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    shutil.copy(CERTIFICATES, context / "ca.crt")
    dockerfile = """FROM debian:bookworm AS build
COPY ca.crt /etc/ssl/certs/ca-certificates.crt
RUN apt-get update && apt-get install -y --no-install-recommends python3-venv
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt
RUN python3 -m venv /opt/venv && /opt/venv/bin/pip install --no-cache-dir iniconfig
FROM debian:bookworm
RUN apt-get update && apt-get install -y --no-install-recommends python3-minimal
COPY --from=build /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH
"""

    async def scene() -> BuiltImage:
        store = await opened(tmp_path / "data")
        base = await make_debian(store, "bookworm", "debian-local")
        recipe = BuildRecipe(dockerfile, context=context, bases={"debian:bookworm": base.id})
        return await build(store, tmp_path / "data", recipe)

    built = asyncio.run(scene())
    assert len(built.image.layers) >= 4
    request = DevboxRequest(blueprint_name="made")
    with serving(tmp_path / "data") as client, client.devboxes.open(request) as devbox:
        assert devbox.run("/opt/venv/bin/python -c 'import iniconfig; print(6 * 7)'").stdout == "42\n"
        assert devbox.run("sudo -n id -u").stdout == "0\n"


@pytest.mark.slow
def test_a_stand_in_is_built_on_and_reported(tmp_path: Path) -> None:
    reference = f"python:{platform.python_version().rpartition('.')[0]}-slim"
    dockerfile = f"FROM {reference}\nRUN pip install --no-cache-dir iniconfig\nRUN apt-get update\n"
    with serving(tmp_path / "data") as client:
        made = client.images.stand_in(reference)
        assert made.stands_for is not None
        assert made.stands_for.startswith(f"{reference}: Debian ")
        assert client.doctor().stand_ins == [made.stands_for]
        asked = client.blueprints.create(BlueprintRequest(name="built", dockerfile=dockerfile))
        blueprint = client.blueprints.wait(asked.id)
        assert blueprint.status == "build_complete"
        assert blueprint.substituted_bases == {reference: made.name}
