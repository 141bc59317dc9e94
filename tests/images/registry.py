"""A registry on this machine: serves one OCI layout, and can only be read."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_PATH = re.compile(r"/v2/.+/(manifests|blobs)/(?:sha256:)?([A-Za-z0-9._-]+)")


@contextmanager
def serving(layout: Path) -> Iterator[str]:
    """Serve the layout's one image under every name; gives the registry's address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = _PATH.fullmatch(self.path)
            if self.path == "/v2/":
                self._answer(b"{}", "application/json")
            elif found and (content := _content(layout, found[1], found[2])) is not None:
                kind = (
                    json.loads(content).get("mediaType", "")
                    if found[1] == "manifests"
                    else "application/data"
                )
                self._answer(content, kind or "application/vnd.oci.image.manifest.v1+json")
            else:
                self.send_error(404)

        do_HEAD = do_GET

        def _answer(self, content: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, format: str, *_arguments: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def _content(layout: Path, kind: str, name: str) -> bytes | None:
    if kind == "manifests" and len(name) != 64:
        index = json.loads((layout / "index.json").read_text())
        name = index["manifests"][0]["digest"].removeprefix("sha256:")
    path = layout / "blobs/sha256" / name
    return path.read_bytes() if path.is_file() else None
