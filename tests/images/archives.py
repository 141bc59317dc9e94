"""Archives of images, made by hand."""

import gzip
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
PASSWD = "root:x:0:0:root:/root:/bin/sh\n"


def layer(files: dict[str, str | None]) -> bytes:
    """A layer's tar: None is a directory, `-> x` a link, all else a file's text."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.mode = 0o644
            info.uid, info.gid = os.geteuid(), os.getegid()
            content = b""
            if text is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            elif text.startswith("-> "):
                info.type, info.linkname = tarfile.SYMTYPE, text.removeprefix("-> ")
            else:
                content = text.encode()
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def config(layers: list[bytes], **fields: Any) -> bytes:
    return json.dumps(
        {
            "architecture": ARCHITECTURE,
            "os": "linux",
            "config": {
                "Env": ["PATH=/bin", "EMPTY=", "LANG=C"],
                "User": "daemon",
                "WorkingDir": "/srv",
                "Entrypoint": ["/bin/run"],
                "Cmd": ["--all"],
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha(each)}" for each in layers]},
            **fields,
        }
    ).encode()


def tar_of(folder: Path, target: Path) -> Path:
    with tarfile.open(target, "w") as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, path.relative_to(folder), recursive=False)
    return target


def docker_folder(folder: Path, layers: list[bytes], **fields: Any) -> Path:
    """What `docker save` puts into its tar."""
    folder.mkdir()
    names = []
    for number, content in enumerate(layers):
        name = f"{number:064x}"
        (folder / name).mkdir()
        (folder / name / "VERSION").write_text("1.0")
        first = layers.index(content)
        if first != number:
            (folder / name / "layer.tar").symlink_to(f"../{first:064x}/layer.tar")
        else:
            (folder / name / "layer.tar").write_bytes(content)
        names.append(f"{name}/layer.tar")
    settings = config(layers, **fields)
    (folder / f"{sha(settings)}.json").write_bytes(settings)
    manifest = [{"Config": f"{sha(settings)}.json", "RepoTags": ["a:b"], "Layers": names}]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def put_blob(folder: Path, content: bytes) -> dict[str, Any]:
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    (blobs / sha(content)).write_bytes(content)
    return {"digest": f"sha256:{sha(content)}", "size": len(content)}


def put_manifest(folder: Path, layers: list[bytes], **fields: Any) -> dict[str, Any]:
    settings = {
        "mediaType": "application/vnd.oci.image.config.v1+json",
        **put_blob(folder, config(layers, **fields)),
    }
    kind = "application/vnd.oci.image.layer.v1.tar+gzip"
    manifest = {
        "schemaVersion": 2,
        "config": settings,
        "layers": [{"mediaType": kind, **put_blob(folder, gzip.compress(each, mtime=0))} for each in layers],
    }
    blob = put_blob(folder, json.dumps(manifest).encode())
    return {"mediaType": "application/vnd.oci.image.manifest.v1+json", **blob}


def oci_folder(folder: Path, *manifests: dict[str, Any]) -> Path:
    """An OCI layout whose manifests were put into it before."""
    folder.mkdir(exist_ok=True)
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": manifests}))
    return folder
