"""Dockerfiles through the official client: built by the real engine, run by the native driver."""

import io
import shutil
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from runloop_api_client import Runloop, RunloopError
from runloop_api_client.lib.polling import PollingConfig
from runloop_api_client.types import BlueprintView

from benchyard.testing.server import RunningServer
from tests.sdk.boxes import create, output

QUICK = PollingConfig(interval_seconds=0.2, max_attempts=1500)
APPLETS = (
    "sh",
    "ls",
    "cat",
    "echo",
    "mkdir",
    "id",
    "env",
    "sleep",
    "rm",
    "dd",
    "grep",
    "test",
    "true",
    "false",
)


@pytest.fixture(scope="module")
def http(server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def base(http: httpx.Client, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a registry would call an image that a small one of this server stands in for."""
    root = tmp_path_factory.mktemp("base") / "root"
    for name in ("bin", "etc", "tmp", "root"):
        (root / name).mkdir(parents=True)
    found = shutil.which("busybox")
    assert found, "busybox is not installed: `make setup` does it"
    shutil.copy(found, root / "bin/busybox")
    for name in APPLETS:
        (root / "bin" / name).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    name = f"small-{uuid.uuid4().hex[:8]}"
    made = http.post("/v1/images/import", json={"path": str(root), "name": name})
    assert made.status_code == 200, made.text
    reference = f"example.test/{name}:1.0"
    set_ = http.post("/v1/images/aliases", json={"reference": reference, "image": name})
    assert set_.status_code == 200, set_.text
    return reference


def build(client: Runloop, dockerfile: str, **fields: Any) -> BlueprintView:
    return client.blueprints.create_and_await_build_complete(
        name=f"docker-{uuid.uuid4().hex[:8]}", dockerfile=dockerfile, polling_config=QUICK, **fields
    )


def failed(client: Runloop, dockerfile: str, **fields: Any) -> tuple[BlueprintView, str]:
    """A blueprint whose build must fail, and its log."""
    name = f"docker-{uuid.uuid4().hex[:8]}"
    with pytest.raises(RunloopError):
        client.blueprints.create_and_await_build_complete(
            name=name, dockerfile=dockerfile, polling_config=QUICK, **fields
        )
    (view,) = client.blueprints.list(name=name)
    assert view.status == "failed"
    return view, "\n".join(line.message for line in client.blueprints.logs(view.id).logs)


def context(client: Runloop, http: httpx.Client, files: dict[str, str]) -> dict[str, str]:
    """A build context, uploaded as an object."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    made = client.objects.create(name="context", content_type="tgz")
    assert made.upload_url
    assert httpx.put(made.upload_url, content=buffer.getvalue()).status_code == 200
    client.objects.complete(made.id)
    return {"type": "object", "object_id": made.id}


def test_stages_arguments_a_context_and_here_documents(
    client: Runloop, http: httpx.Client, base: str
) -> None:
    dockerfile = f"""
ARG WHERE=/nowhere
FROM {base} AS first
ARG GREETING
RUN <<EOF
mkdir /out
echo "$GREETING" > /out/said
EOF

FROM {base}
WORKDIR /srv
COPY --from=first /out/said /srv/said
COPY note.txt /srv/
COPY <<"END" /srv/plain
$not expanded
END
ENV PLACE=/srv
HEALTHCHECK CMD true
RUN echo layer > /srv/made && rm /srv/note.txt
"""
    files = {"note.txt": "from the context\n", "left-out": "x", ".dockerignore": "left-out\n"}
    made = build(
        client,
        dockerfile,
        build_args={"GREETING": "good day"},
        build_context=context(client, http, files),
        system_setup_commands=["echo as $(id -un) > ~/who"],
    )
    name = base.partition("/")[2].partition(":")[0]
    assert getattr(made, "substituted_bases", None) == {base: name}
    devbox = create(client, blueprint_id=made.id)
    shown = output(client, devbox, "cat $PLACE/said $PLACE/plain $PLACE/made ~/who; ls $PLACE")
    assert shown == "good day\n$not expanded\nlayer\nas user\nmade\nplain\nsaid\n"
    client.devboxes.shutdown(devbox)
    # A blueprint on top of it, in both ways, and what stands below shows there too.
    above = build(client, "RUN echo more > /srv/more", base_blueprint_id=made.id)
    assert getattr(above, "substituted_bases", None) == {base: name}
    devbox = create(client, blueprint_name=above.name)
    assert output(client, devbox, "cat $PLACE/said $PLACE/more") == "good day\nmore\n"
    client.devboxes.shutdown(devbox)


def test_secrets_of_a_build_are_in_no_layer_and_no_log(
    client: Runloop, server: RunningServer, base: str
) -> None:
    value = f"value-{uuid.uuid4().hex}"
    name = f"BUILD_{uuid.uuid4().hex[:8].upper()}"
    client.secrets.create(name=name, value=value)
    dockerfile = f"""
FROM {base}
ENV NO_CACHE_OF={name}
RUN test "$TOKEN" = "$(cat /run/secrets/TOKEN)" && test -n "$TOKEN" && echo "it is $TOKEN"
"""
    made = build(client, dockerfile, secrets={"TOKEN": name})
    log = "\n".join(line.message for line in client.blueprints.logs(made.id).logs)
    assert "it is ***" in log
    assert value not in log
    holding = [path for path in Path(server.data).rglob("*") if _holds(path, value.encode())]
    assert holding == []


def _holds(path: Path, text: bytes) -> bool:
    try:
        return path.is_file() and not path.is_symlink() and text in path.read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("FROM {base}\n\nRUN echo before; exit 3\n", ["line 3", "status 3"]),
        ("FROM {base}\nRUNN true\n", ["line 2", "RUNN"]),
        ("FROM nowhere.test/such/image:1\n", ["nowhere.test/such/image:1", "benchyard image alias"]),
        ("FROM host\nRUN true\n", ["host", "import"]),
        ("FROM {base}\nCOPY missing /\n", ["line 2", "missing"]),
    ],
    ids=["failing step", "syntax", "no base", "host", "no such file"],
)
def test_a_build_that_fails_says_where_and_why(
    client: Runloop, base: str, lines: str, told: list[str]
) -> None:
    view, log = failed(client, lines.format(base=base))
    assert view.failure_reason == "build_failed"
    message = getattr(view, "error_message", "")
    for word in told:
        assert word in message, (message, log)


def test_two_blueprints_of_one_name_at_once_are_both_built(client: Runloop, base: str) -> None:
    name = f"twin-{uuid.uuid4().hex[:8]}"
    dockerfile = f"FROM {base}\nRUN sleep 1; echo {name} > /twin\n"
    twins = [client.blueprints.create(name=name, dockerfile=dockerfile) for _ in range(2)]
    for twin in twins:
        assert (
            client.blueprints.await_build_complete(twin.id, polling_config=QUICK).status == "build_complete"
        )
    devbox = create(client, blueprint_name=name)
    assert client.devboxes.retrieve(devbox).blueprint_id == twins[1].id
    assert output(client, devbox, "cat /twin") == f"{name}\n"
    client.devboxes.shutdown(devbox)
