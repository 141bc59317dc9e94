"""Datasets on the Hugging Face hub, by its plain HTTP addresses."""

import functools
import json
import shutil
import ssl
from pathlib import Path
from urllib.parse import quote

import httpx

from benchyard.benchmarks.sources import cache, downloads
from benchyard.benchmarks.sources.base import FetchLimits, FetchProgress, HubDataset, SourceFile, is_commit
from benchyard.benchmarks.sources.downloads import (
    Download,
    FileRequest,
    Hub,
    HubResponse,
    Interruption,
    is_whole,
)
from benchyard.errors import DatasetError

ADDRESS = "https://huggingface.co"

_MOST_ANSWER_BYTES = 16 * 1024**2


def fetch(source: HubDataset, root: Path, hub: Hub, progress: FetchProgress, limits: FetchLimits) -> Path:
    """Return the folder with a dataset's files, under `root`; raises DatasetError."""
    if not source.gated:
        # The hub refuses an expired token even for public files: send it only for gated ones.
        hub = Hub(hub.address)
    base = root / source.dataset.replace("/", "--")
    folder = base / (source.revision if is_commit(source.revision) else _commit(source, base, hub, limits))
    with cache.disk_errors(folder):
        if all(is_whole(file, folder / file.path) for file in source.files):
            return folder
    with cache.lock(folder, source.dataset, progress), _client(limits) as client:
        partial = cache.path_beside(folder, ".partial")
        for file in source.files:
            if not is_whole(file, folder / file.path):
                name = _file_request(source, file, hub, folder)
                _fetch_one(source, Download(name, hub, client, limits), hub, progress)
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def page(source: HubDataset, address: str = ADDRESS) -> str:
    """Return the address of the dataset's page, for people."""
    return f"{address.rstrip('/')}/datasets/{source.dataset}"


def _file_request(source: HubDataset, file: SourceFile, hub: Hub, folder: Path) -> FileRequest:
    path = quote(file.path, safe="/")
    return FileRequest(
        url=f"{page(source, hub.address)}/resolve/{quote(folder.name, safe='')}/{path}",
        file=file,
        target=folder / file.path,
        partial=cache.path_beside(folder, ".partial") / file.path,
        name=f"{source.dataset}/{file.path}",
    )


def _fetch_one(source: HubDataset, download: Download, hub: Hub, progress: FetchProgress) -> None:
    try:
        download.run(progress)
    except DatasetError as error:
        raise _error_with_remedy(source, hub, error) from error


def _error_with_remedy(source: HubDataset, hub: Hub, error: DatasetError) -> DatasetError:
    """Add the remedy to an error of the hub."""
    status = error.details.get("status")
    if status in (401, 403):
        return DatasetError(f"{error.message}. {_how_to_enter(source, hub)}", status=status)
    if status == 404:
        return DatasetError(
            f"{error.message}: look for revision {source.revision} on {page(source, hub.address)}, "
            "or give a copy with --from",
            status=status,
        )
    return error


def _how_to_enter(source: HubDataset, hub: Hub) -> str:
    there = page(source, hub.address)
    if not source.gated:
        return f"{source.dataset} is private, or not there: see {there}"
    if hub.token is None:
        return f"Accept the terms on {there}, then give a token of that account in HF_TOKEN"
    return f"The token was refused: accept the terms on {there} with the account that HF_TOKEN belongs to"


def _commit(source: HubDataset, base: Path, hub: Hub, limits: FetchLimits) -> str:
    """Return the present commit of a branch or tag, or the last known if the hub cannot be reached."""
    name = f"{source.dataset} at {source.revision}"
    url = (
        f"{hub.address.rstrip('/')}/api/datasets/{source.dataset}/revision/{quote(source.revision, safe='')}"
    )
    noted = cache.last_commit(base, source.revision)
    try:
        with _client(limits) as client:
            commit = downloads.retry(lambda: _asked_commit(client, hub, url, name), lambda: 0, limits, name)
    except DatasetError as error:
        if noted is not None and isinstance(error.__cause__, Interruption):
            return noted
        raise _error_with_remedy(source, hub, error) from error
    cache.note_commit(base, source.revision, commit)
    return commit


def _asked_commit(client: httpx.Client, hub: Hub, url: str, name: str) -> str:
    with downloads.open_response(client, hub, url, {}) as answer:
        status = answer.response.status_code
        if status != 200:
            raise DatasetError(f"{name}: the hub answered {status}", status=status)
        with downloads.interruptions(url):
            content = _content(answer)
    try:
        commit = json.loads(content)["sha"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise DatasetError(f"{name}: the hub did not say which commit it is") from error
    if not isinstance(commit, str) or not is_commit(commit):
        raise DatasetError(f"{name}: the hub did not say which commit it is")
    return commit


def _content(answer: HubResponse) -> bytes:
    content = b""
    for chunk in answer.response.iter_raw():
        content += chunk
        if len(content) > _MOST_ANSWER_BYTES:
            raise DatasetError("the hub's answer is too long")
    return content


def _client(limits: FetchLimits) -> httpx.Client:
    return httpx.Client(
        timeout=httpx.Timeout(limits.silent_seconds),
        follow_redirects=False,
        headers={"User-Agent": "benchyard"},
        verify=_trusted(),
    )


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Return the trusted authorities; cached, since reading all of them takes a quarter of a second."""
    return httpx.create_ssl_context()
