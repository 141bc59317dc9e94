"""Files of the hub: cut and resumed, damaged, gated, moved, slow, endless; and what is kept of them."""

import hashlib
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchyard.benchmarks.sources.base import FetchLimits, HubDataset, HubDatasets, SilentProgress, SourceFile
from benchyard.benchmarks.sources.retrieval import commit_of, fetch
from benchyard.errors import DatasetError
from tests.benchmarks import hub as stand_in
from tests.benchmarks.hub import COMMIT, Fault, Hub

DATASET = "owner/Some.Set-1"
PATH = "data/test-00000-of-00001.jsonl"
CONTENT = b"".join(b'{"id": %d}\n' % number for number in range(20_000))
QUICK = FetchLimits(attempts=3, pause_seconds=0.001, silent_seconds=5.0)
TOKEN = "hf_a-token-that-must-not-travel"


@dataclass
class Noted:
    """Progress that remembers what it was told."""

    names: list[str] = field(default_factory=list)
    totals: list[int | None] = field(default_factory=list)
    count: int = 0
    ended: int = 0

    def started(self, name: str, total: int | None) -> None:
        self.names.append(name)
        self.totals.append(total)

    def advanced(self, count: int) -> None:
        self.count += count

    def done(self) -> None:
        self.ended += 1


def source(sha256: str | None = None, size: int | None = None, *, gated: bool = False) -> HubDataset:
    return HubDataset(DATASET, COMMIT, (SourceFile(PATH, sha256, size),), gated)


def refused(asked: HubDataset, cache: Path, token: str | None = None, limits: FetchLimits = QUICK) -> str:
    with pytest.raises(DatasetError) as told:
        fetch(asked, cache, SilentProgress(), token, limits)
    assert not [path for path in cache.rglob("*.jsonl") if ".partial" not in str(path)]
    return told.value.message


@pytest.fixture(autouse=True)
def _served(hub: Hub) -> None:
    hub.put(DATASET, {PATH: CONTENT})


def test_a_file_is_fetched_once_and_then_needs_no_hub(tmp_path: Path, hub: Hub) -> None:
    noted = Noted()
    folder = fetch(source(hashlib.sha256(CONTENT).hexdigest(), len(CONTENT)), tmp_path, noted)
    assert (folder / PATH).read_bytes() == CONTENT
    assert noted == Noted([f"{DATASET}/{PATH}"], [len(CONTENT)], len(CONTENT), 1)
    assert folder.name == COMMIT
    assert {path.name for path in folder.parent.iterdir()} == {COMMIT, f"{COMMIT}.lock"}
    hub.faults.append(Fault(status=500))
    assert fetch(source(), tmp_path, SilentProgress()) == folder
    assert len(hub.downloads) == 1


def test_a_damaged_file_of_the_cache_is_fetched_again(tmp_path: Path, hub: Hub) -> None:
    pinned = source(hashlib.sha256(CONTENT).hexdigest())
    place = fetch(pinned, tmp_path, SilentProgress()) / PATH
    place.write_bytes(CONTENT[:-1] + b"?")
    assert (fetch(pinned, tmp_path, SilentProgress()) / PATH).read_bytes() == CONTENT
    assert len(hub.downloads) == 2


def test_interrupted_download_is_resumed(tmp_path: Path, hub: Hub) -> None:
    hub.faults.extend([Fault(cut_after=1000), Fault(cut_after=500)])
    noted = Noted()
    folder = fetch(source(), tmp_path, noted, limits=QUICK)
    assert (folder / PATH).read_bytes() == CONTENT
    assert [download.range for download in hub.downloads] == [None, "bytes=1000-", "bytes=1500-"]
    assert (noted.count, noted.ended) == (len(CONTENT), 1)


def test_another_process_resumes_what_one_left(tmp_path: Path, hub: Hub) -> None:
    hub.faults.append(Fault(cut_after=1000))
    said = refused(source(), tmp_path, limits=FetchLimits(attempts=1))
    assert "connection" in said
    assert "--from" in said
    fetch(source(), tmp_path, SilentProgress())
    assert hub.downloads[-1].range == "bytes=1000-"


def test_complete_partial_file_is_not_fetched_again(tmp_path: Path, hub: Hub) -> None:
    partial = tmp_path / "hub" / DATASET.replace("/", "--") / f"{COMMIT}.partial" / PATH
    partial.parent.mkdir(parents=True)
    partial.write_bytes(CONTENT)
    partial.with_name(partial.name + ".etag").write_text(f'"{hashlib.sha256(CONTENT).hexdigest()}"')
    assert (fetch(source(), tmp_path, SilentProgress()) / PATH).read_bytes() == CONTENT
    assert [download.range for download in hub.downloads] == [f"bytes={len(CONTENT)}-"]


def test_a_hub_without_ranges_starts_anew(tmp_path: Path, hub: Hub) -> None:
    hub.ranges = False
    hub.faults.append(Fault(cut_after=1000))
    noted = Noted()
    assert (fetch(source(), tmp_path, noted, limits=QUICK) / PATH).read_bytes() == CONTENT
    assert noted.count == len(CONTENT)


def test_a_hub_without_tags_starts_anew(tmp_path: Path, hub: Hub) -> None:
    hub.tags = hub.large = False
    hub.faults.append(Fault(cut_after=1000))
    assert (fetch(source(), tmp_path, SilentProgress(), limits=QUICK) / PATH).read_bytes() == CONTENT
    assert [download.range for download in hub.downloads] == [None, None]


def test_a_file_that_changed_meanwhile_starts_anew(tmp_path: Path, hub: Hub) -> None:
    hub.large = False
    hub.faults.append(Fault(cut_after=1000))
    refused(source(), tmp_path, limits=FetchLimits(attempts=1))
    other = bytes(reversed(CONTENT))
    hub.put(DATASET, {PATH: other})
    assert (fetch(source(), tmp_path, SilentProgress(), limits=QUICK) / PATH).read_bytes() == other
    assert [download.range for download in hub.downloads] == [None, "bytes=1000-", None]


def test_a_wrong_checksum_is_reported_and_nothing_is_kept(tmp_path: Path, hub: Hub) -> None:
    said = refused(source("0" * 64), tmp_path)
    assert "should have 0000" in said
    assert hashlib.sha256(CONTENT).hexdigest() in said
    assert not list(tmp_path.rglob("*.jsonl*"))


def test_the_hubs_checksum_counts_without_a_pinned_one(tmp_path: Path, hub: Hub) -> None:
    hub.faults.append(Fault(wrong=True))
    assert hashlib.sha256(CONTENT).hexdigest() in refused(source(), tmp_path)
    assert (fetch(source(), tmp_path, SilentProgress()) / PATH).read_bytes() == CONTENT


def test_a_wrong_size_is_reported(tmp_path: Path) -> None:
    assert f"has {len(CONTENT)} bytes there, and should have" in refused(source(size=10**9), tmp_path)
    assert "larger than 10 bytes" in refused(source(size=10), tmp_path)


def test_bad_file_does_not_discard_good_ones(tmp_path: Path, hub: Hub) -> None:
    hub.put(DATASET, {"good.jsonl": b"{}\n"})
    both = HubDataset(DATASET, COMMIT, (SourceFile("good.jsonl"), SourceFile(PATH, "0" * 64)))
    with pytest.raises(DatasetError, match="checksum"):
        fetch(both, tmp_path, SilentProgress())
    assert [path.name for path in tmp_path.rglob("*.jsonl")] == ["good.jsonl"]


@pytest.mark.parametrize("status", [401, 403])
def test_gated_dataset_is_refused_with_how_to_enter(tmp_path: Path, hub: Hub, status: int) -> None:
    hub.faults.append(Fault(status=status))
    said = refused(source(gated=True), tmp_path)
    assert f"Accept the terms on {hub.address}/datasets/{DATASET}" in said
    assert "HF_TOKEN" in said
    hub.faults.append(Fault(status=status))
    said = refused(source(gated=True), tmp_path, TOKEN)
    assert "The token was refused" in said
    assert TOKEN not in said


def test_private_dataset_is_not_called_gated(tmp_path: Path, hub: Hub) -> None:
    hub.token = TOKEN
    assert "is private, or not there" in refused(source(), tmp_path)


def test_a_token_opens_gated_data(tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.token = TOKEN
    fetch(source(gated=True), tmp_path / "given", SilentProgress(), TOKEN)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    fetch(source(gated=True), tmp_path / "set", SilentProgress())
    assert [download.token for download in hub.downloads] == [TOKEN, TOKEN]


def test_a_token_is_not_sent_without_a_request(tmp_path: Path, hub: Hub) -> None:
    fetch(source(), tmp_path, SilentProgress(), TOKEN)
    assert [download.token for download in hub.downloads] == [None]


def test_a_token_does_not_travel_to_another_host(tmp_path: Path, hub: Hub) -> None:
    hub.token = TOKEN
    with stand_in.serving() as other:
        other.put(DATASET, {PATH: CONTENT})
        other.large = False
        hub.elsewhere = other.address
        hub.faults.append(Fault())
        other.faults.append(Fault(cut_after=700))
        folder = fetch(source(gated=True), tmp_path, SilentProgress(), TOKEN, QUICK)
        assert (folder / PATH).read_bytes() == CONTENT
        assert [(download.token, download.range) for download in other.downloads] == [
            (None, None),
            (None, "bytes=700-"),
        ]
    assert {download.token for download in hub.downloads} == {TOKEN}


def test_the_checksum_is_the_hubs_word_not_that_of_where_files_lie(tmp_path: Path, hub: Hub) -> None:
    with stand_in.serving() as other:
        other.put(DATASET, {PATH: bytes(reversed(CONTENT))})
        hub.elsewhere = other.address
        assert "checksum" in refused(source(), tmp_path)


def test_redirects_end_and_lead_to_http_only(tmp_path: Path, hub: Hub) -> None:
    hub.elsewhere = hub.address
    hub.faults.append(Fault(status=302, headers=(("Location", "file:///etc/passwd"),)))
    assert "neither https:// nor http://" in refused(source(), tmp_path)
    hub.faults.extend([Fault(status=302, headers=(("Location", f"/datasets/{DATASET}"),))] * 20)
    assert "redirects endlessly" in refused(source(), tmp_path)
    hub.faults.clear()
    hub.faults.extend([Fault(status=302, headers=(("Location", "http://[::"),))] * 3)
    assert "Invalid URL" in refused(source(), tmp_path)


def test_missing_file_is_refused_with_the_datasets_page(tmp_path: Path) -> None:
    lost = HubDataset(DATASET, COMMIT, (SourceFile("lost.jsonl"),))
    said = refused(lost, tmp_path)
    assert f"{DATASET}/lost.jsonl is not there" in said
    assert COMMIT in said


@pytest.mark.parametrize("status", [429, 500, 503])
def test_passing_failures_are_tried_again(tmp_path: Path, hub: Hub, status: int) -> None:
    hub.faults.extend([Fault(status=status, headers=(("Retry-After", "0"),)), Fault(status=status)])
    fetch(source(), tmp_path, SilentProgress(), limits=QUICK)
    hub.faults.extend([Fault(status=status)] * 3)
    said = refused(source(), tmp_path / "other")
    assert f"answered {status}; tried 3 times" in said


def test_other_answers_are_reported(tmp_path: Path, hub: Hub) -> None:
    hub.faults.append(Fault(status=418))
    assert "the hub answered 418" in refused(source(), tmp_path)


def test_silence_is_not_waited_for_without_end(tmp_path: Path, hub: Hub) -> None:
    hub.faults.append(Fault(hang=True))
    said = refused(source(), tmp_path, limits=FetchLimits(attempts=1, silent_seconds=0.05))
    assert "did not answer in time" in said


def test_a_body_without_an_end_is_left_at_the_limit(tmp_path: Path, hub: Hub) -> None:
    hub.faults.append(Fault(endless=True))
    assert "larger than 1000000 bytes" in refused(source(), tmp_path, limits=FetchLimits(file_bytes=10**6))
    assert not list(tmp_path.rglob("*.jsonl"))


def test_a_body_without_an_end_is_left_when_time_is_over(tmp_path: Path, hub: Hub) -> None:
    hub.faults.append(Fault(endless=True))
    assert "was not complete after 0 seconds" in refused(source(), tmp_path, limits=FetchLimits(seconds=0.01))


def test_unreachable_hub_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert "the connection to 127.0.0.1 broke" in refused(source(), tmp_path)


def test_two_at_the_same_time_fetch_once(tmp_path: Path, hub: Hub) -> None:
    hub.faults.append(Fault(hang=True))
    first = threading.Thread(target=fetch, args=(source(), tmp_path, SilentProgress()))
    first.start()
    noted = Waiting(hub)
    while not hub.downloads:
        threading.Event().wait(0.001)
    assert (fetch(source(), tmp_path, noted) / PATH).read_bytes() == CONTENT
    first.join()
    assert len(hub.downloads) == 1
    assert noted.names == [f"waiting for another process that fetches {DATASET}"]


class Waiting(Noted):
    """Lets the other go on as soon as this one waits for it."""

    def __init__(self, hub: Hub) -> None:
        super().__init__()
        self._hub = hub

    def started(self, name: str, total: int | None) -> None:
        super().started(name, total)
        self._hub.release.set()


def test_a_branch_is_looked_up_and_remembered(
    tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch = HubDataset(DATASET, "main", (SourceFile(PATH),))
    assert fetch(branch, tmp_path, SilentProgress()).name == COMMIT
    hub.branches["main"] = "f" * 40
    newer = fetch(branch, tmp_path, SilentProgress())
    assert commit_of(branch, newer) == "f" * 40
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert fetch(branch, tmp_path, SilentProgress(), limits=QUICK) == newer
    with pytest.raises(DatasetError, match="could not be fetched"):
        fetch(branch, tmp_path / "empty", SilentProgress(), limits=QUICK)


def test_a_branch_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="revision lost"):
        fetch(HubDataset(DATASET, "lost", (SourceFile(PATH),)), tmp_path, SilentProgress())


@pytest.mark.parametrize("answer", [b"[]", b'{"sha": "../.."}', b"{", b'{"sha": 1}'])
def test_an_invalid_commit_is_refused(tmp_path: Path, hub: Hub, answer: bytes) -> None:
    hub.revision_answer = answer
    with pytest.raises(DatasetError, match="did not say which commit"):
        fetch(HubDataset(DATASET, "main", (SourceFile(PATH),)), tmp_path, SilentProgress())


def test_a_token_is_not_sent_in_the_clear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.example")
    said = refused(source(gated=True), tmp_path, TOKEN)
    assert "not sent over http://" in said
    assert TOKEN not in said


@pytest.mark.parametrize(
    "address", ["ftp://host", "host", "https://", "https://name:word@host", "http://[::"]
)
def test_an_invalid_address_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    said = refused(source(), tmp_path)
    assert "HF_ENDPOINT" in said
    assert "word" not in said.replace("password", "")


def test_a_token_with_odd_letters_is_not_shown(tmp_path: Path) -> None:
    said = refused(source(gated=True), tmp_path, "hf_x\r\nHost: evil")
    assert "evil" not in said


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../../x", "a\0b", "a\nb", "a\\b", ".git/config", "."]
)
def test_a_path_stays_inside(path: str) -> None:
    with pytest.raises(DatasetError, match="not a path inside"):
        SourceFile(path)


@pytest.mark.parametrize("revision", ["", "-x", "a..b", "a b", "/a", "a\n", "a//b"])
def test_a_revision_is_a_name(revision: str) -> None:
    with pytest.raises(DatasetError, match="not a revision"):
        HubDataset(DATASET, revision, ())


@pytest.mark.parametrize("dataset", ["name", "a/b/c", "../x", "a/..", "a/b?c", "-a/b"])
def test_a_dataset_has_owner_and_name(dataset: str) -> None:
    with pytest.raises(DatasetError, match="owner/name"):
        HubDataset(dataset, COMMIT, ())


def test_a_checksum_looks_like_one() -> None:
    with pytest.raises(DatasetError, match="64 hexadecimal"):
        SourceFile("a", sha256="abc")


def test_a_cache_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "hub").write_text("in the way")
    with pytest.raises(DatasetError, match="BENCHYARD_DATASETS"):
        fetch(source(), tmp_path, SilentProgress())


def test_no_error_shows_the_token(hub: Hub, tmp_path: Path) -> None:
    hub.faults.extend([Fault(status=500)] * 3)
    assert TOKEN not in refused(source(gated=True), tmp_path, TOKEN)


def test_several_datasets_are_folders_of_one(tmp_path: Path, hub: Hub) -> None:
    hub.put("other/set", {"rows.csv": b"a\n1\n"})
    several = HubDatasets((source(), HubDataset("other/set", COMMIT, (SourceFile("rows.csv"),))))
    folder = fetch(several, tmp_path, SilentProgress(), limits=QUICK)
    assert {path.name for path in folder.iterdir()} == {"owner--Some.Set-1", "other--set"}
    assert (folder / "owner--Some.Set-1" / PATH).read_bytes() == CONTENT
    assert (folder / "other--set" / "rows.csv").read_bytes() == b"a\n1\n"
    assert several.revision == f"{DATASET}@{COMMIT}, other/set@{COMMIT}"
    asked = len(hub.downloads)
    assert fetch(several, tmp_path, SilentProgress(), limits=QUICK) == folder
    assert len(hub.downloads) == asked
