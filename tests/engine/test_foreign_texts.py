"""Texts of agents, datasets and clients that are made to take long: no callback of the loop feels them."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchyard.devboxes.base import OpenFile
from benchyard.devboxes.local_trees import LocalTrees
from benchyard.devboxes.shared.inside import FirstProcessInside
from benchyard.engine.devboxes import boot
from benchyard.engine.devboxes.log_file import DevboxLog
from benchyard.engine.devboxes.logs import MOST_LINES, Logs
from benchyard.engine.images.build import dockerfile_with_base
from benchyard.engine.images.transfers import _fields_from_notes
from benchyard.engine.redaction import Scrubber
from benchyard.engine.runs import log_archive
from benchyard.engine.runs.conditions import Conditions
from benchyard.engine.runs.scoring_room import RoomContext
from benchyard.engine.runs.tamper import MOST_WATCHED, TamperFindings, WorkPaths
from benchyard.errors import BuildFailed, ImageError, NotFound, ScorerFailed, UsageError
from benchyard.hosts import output, users
from benchyard.hosts.grading import DiskChange, DiskChanges
from benchyard.images.builders.base import BuildRecipe
from benchyard.images.builders.engine_builder import BuildAttempt, EngineBuilder
from benchyard.models.devboxes import DevboxStatus
from benchyard.scorers import catalog
from benchyard.scorers.base import ScoringContext, Verdict
from benchyard.testing.loop_probe import loop_probe
from benchyard.workers.workers import WorkerLimits, Workers

MEBIBYTE = 1024**2
Reader = Callable[[Workers, Path], Awaitable[None]]


class PaperBuilder(EngineBuilder):
    """A builder whose engine does nothing."""

    def _new_files_name(self) -> str:
        return "files"

    async def _knows_heredocs(self) -> bool:
        return False

    async def _run(self, attempt: BuildAttempt) -> None:
        raise BuildFailed("the engine was reached")

    async def _source(self, image_id: str, scratch: Path) -> Any:
        raise AssertionError("nothing was built")

    async def _clear(self) -> None:
        return None


DOCKERFILES = {
    "doubling": "ARG a0=0123456789\n"
    + "".join(f"ARG a{at}=$a{at - 1}$a{at - 1}\n" for at in range(1, 33))
    + "FROM scratch\n",
    "doubling in a line": "ARG a0=0123456789 "
    + " ".join(f"a{at}=$a{at - 1}$a{at - 1}" for at in range(1, 33))
    + "\nFROM scratch\n",
    "doubling in a stage": "FROM scratch\nENV a0=0123456789\n"
    + "".join(f"ENV a{at}=${{a{at - 1}}}${{a{at - 1}:-}}\n" for at in range(1, 33))
    + "RUN <<X\nx\nX\n",
    "here-documents": "FROM scratch\nENV a="
    + "x" * 100_000
    + "\nCOPY <<A <<B /\n"
    + "$a" * 200_000
    + "\nA\nB\n",
    "many here-documents": "FROM scratch\nENV a=" + "x" * 500_000 + "\n" + "COPY <<A /\n$a$a\nA\n" * 4_000,
    "nested": "FROM " + "${a:-" * 3_000 + "x" + "}" * 3_000 + "\n",
    "directive": "#a=x" + " " * 1_000_000 + "x\nFROM scratch\n",
    "directives": "#a=x\n" * 200_000 + "FROM scratch\n",
    "continued": "FROM scratch\nRUN " + "a\\\n" * 340_000 + "b\n",
    "flags": "FROM scratch\nRUN " + "--a " * 250_000 + "b\n",
    "words": "FROM scratch\nCOPY " + "a " * 500_000 + "/\n",
    "instructions": "FROM scratch\n" + "RUN a\n" * 170_000,
    "stages": "".join(f"FROM a{at}\n" for at in range(4_000)),
    "blank": "\n" * MEBIBYTE,
    "tabs": "FROM scratch\nCOPY <<-A /\n" + "\t" * 1_000_000 + "\nA\n",
}


async def build(text: str, workers: Workers, folder: Path) -> None:
    call = partial(workers.call, limits=WorkerLimits(output_bytes=128 * MEBIBYTE))
    unused: Any = None
    builder = PaperBuilder(unused, folder, LocalTrees(), unused, None, unused, call)
    await builder.open()
    with pytest.raises(BuildFailed):
        await builder.build(BuildRecipe(text), unused, lambda _line: None)
    # It is read by the loop before it is built.
    base: Any = SimpleNamespace(id="bpt_1")
    dockerfile_with_base(text.replace("FROM", "FRUM"), base)


@pytest.mark.parametrize("name", DOCKERFILES)
def test_no_dockerfile_is_felt_while_it_is_built(name: str, tmp_path: Path) -> None:
    live(lambda workers, folder: build(DOCKERFILES[name], workers, folder), tmp_path)


def live(read: Reader, folder: Path) -> None:
    async def probed() -> None:
        async with Workers() as workers:
            assert await workers.call("json:load", b"[]") == []
            with loop_probe() as probe:
                # The callback that is under way now is not measured, nor the one in which the block ends.
                await asyncio.sleep(0)
                await read(workers, folder)
                await asyncio.sleep(0)
            assert probe.slow == []

    asyncio.run(probed())


async def script(workers: Workers, _: Path) -> None:
    for text in (
        "# /// a\n" * 131_072,
        "# /// script\n#" + " x" * 500_000 + "\n# ///\n",
        "# /// a\n\n" * 99_000,
    ):
        try:
            catalog.parse("python_script_scorer", {"python_script": text}, ScoringContext(call=workers.call))
        except UsageError:
            await asyncio.sleep(0)


def named_packages() -> str:
    return "".join(f"apt-get install a{at}\n" for at in range(500))


async def downloads(workers: Workers, _: Path) -> None:
    fields = {"script": "apt-get install a b c d e f g h i j k\n" * 20_000 + named_packages()}
    scorer: Any = catalog.parse("harbor_scorer", fields, ScoringContext(call=workers.call))
    with pytest.raises(ScorerFailed, match="packages"):
        await scorer.kits(None)


LINES = {
    "returns": b"\r",
    "line feeds": b"\n",
    "form feeds": b"\x0c",
    "next lines": b"\xc2\x85",
    "pairs": b"\r\n",
}


class LoggedHost:
    """A host with a devbox whose commands printed what they liked."""

    def __init__(self, printed: bytes, folder: Path, count: int = 1) -> None:
        self._file = folder / "printed"
        self._file.write_bytes(printed)
        fields = {
            "command": "x",
            "shell_name": None,
            "start_ms": 1,
            "end_ms": 2,
            "exit_status": 0,
            "hint": None,
        }
        sizes = {"stdout_bytes": len(printed), "stderr_bytes": len(printed)}
        fields |= {"devbox_id": "dbx_1", "status": "completed", **sizes}
        self.states = [SimpleNamespace(id=f"exec_{at}", **fields) for at in range(count)]

    async def executions(self, _: str) -> list[SimpleNamespace]:
        return self.states

    async def tail(self, _devbox: str, _execution: str, _stream: str, lines: int) -> tuple[str, bool]:
        return await asyncio.to_thread(output.tail, self._file, lines)

    async def output(self, *given: Any, **_: Any) -> AsyncIterator[bytes]:
        content = self._file.read_bytes()
        for at in range(given[3], len(content), 65_536):
            yield content[at : at + 65_536]


def tools_of(host: object, folder: Path) -> Any:
    async def record(_: str) -> SimpleNamespace:
        return SimpleNamespace(status=DevboxStatus.SHUTDOWN)

    journal = DevboxLog(folder / "logs")
    journal.open()
    return SimpleNamespace(host=host, live_devboxes=SimpleNamespace(get=record), journal=journal, egress=None)


@pytest.mark.parametrize("name", LINES)
def test_no_output_is_felt_while_it_is_shown(name: str, tmp_path: Path) -> None:
    printed = (LINES[name] * MEBIBYTE)[:MEBIBYTE]

    async def shown(_: Workers, folder: Path) -> None:
        logs = Logs(tools_of(LoggedHost(printed, folder), folder))
        lines = await logs.lines("dbx_1", "exec_0", None)
        assert len(lines) <= 10_002
        packed = await asyncio.to_thread(log_archive._texts, lines, Scrubber(["a-secret-value"]))
        assert packed.count(b"\n") == len(lines)
        many = Logs(tools_of(LoggedHost(printed, folder, 300), folder))
        assert len(await many.lines("dbx_1", None, None)) < MOST_LINES + 1_000

    live(shown, tmp_path)


@pytest.mark.parametrize("name", LINES)
def test_no_output_is_felt_while_it_is_followed(name: str, tmp_path: Path) -> None:
    size = 300_000
    printed = (LINES[name] * size)[:size]
    begun = LoggedHost(b"", tmp_path)
    host = LoggedHost(printed, tmp_path)

    async def followed(_: Workers, folder: Path) -> None:
        tools = tools_of(begun, folder)
        begun.states = []
        found = await Logs(tools).follow("dbx_1")
        tools.host = host
        count = 0
        async for _line in found:
            count += 1
            if name == "line feeds":
                # As the stream of events does, which sends each by itself.
                await asyncio.sleep(0)
        feeds = printed.count(b"\n") if printed.count(b"\n") else None
        assert count == 2 + 2 * feeds if feeds else count < 100

    live(followed, tmp_path)


async def accounts(_: Workers, folder: Path) -> None:
    folder = folder / "etc"
    folder.mkdir()
    for text in (b"y\n" * (MEBIBYTE // 2), b"a:b:1000:" * (MEBIBYTE // 9), b"\r" * MEBIBYTE):
        for name in ("passwd", "group"):
            (folder / name).write_bytes(text)

        async def open_file(_: str, asked: OpenFile) -> int:
            flags = os.O_WRONLY | os.O_TRUNC if asked.write else os.O_RDONLY
            return os.open(folder / Path(asked.path).name, flags)

        async def open_read(*_: str) -> int:
            return os.open(folder / "passwd", os.O_RDONLY)

        async def refused(*_: Any) -> None:
            raise NotFound("nothing runs here")

        driver: Any = SimpleNamespace(open_file=open_file, trees=SimpleNamespace(remove=refused))
        spec: Any = SimpleNamespace(id="dbx_1", folder=folder)
        with pytest.raises(NotFound):
            await users.ensure_user(driver, spec, "ada", None)
        uid = b"1001" if b"1000" in text else b"1000"
        row = b"\nada:x:%s:%s::/home/ada:/bin/bash\n" % (uid, uid)
        assert (folder / "passwd").read_bytes()[-len(row) :] == row
        assert (folder / "group").read_bytes()[-12:] == b"ada:x:%s:\n" % uid
        tools: Any = SimpleNamespace(host=SimpleNamespace(open_read=open_read))
        assert await boot.home_of(tools, "dbx_1", "eve") == "/home/eve"


async def notes(workers: Workers, _: Path) -> None:
    for text in ('{"k":[' + "{}," * 1_000_000 + "{}]}", "[" * MEBIBYTE, "{" + '"a":1,' * 400_000 + '"b":2}'):
        with pytest.raises(ImageError, match="metadata"):
            await _fields_from_notes({"dev.benchyard.metadata": text}, workers.call)
    good = await _fields_from_notes({"dev.benchyard.metadata": '{"a": "b"}'}, workers.call)
    assert good["metadata"] == {"a": "b"}


def many_changes() -> DiskChanges:
    paths = (f"/home/user/work/.git/{'a/' * 500}{at:06}/config" for at in range(20_000))
    found = tuple(DiskChange(path, "added", "file", 0o755, 1, False) for path in paths)
    return DiskChanges(found, 20_000, False, True)


async def changes(_: Workers, __: Path) -> None:
    findings = TamperFindings(WorkPaths(("/home/user/work",)), changes=await asyncio.to_thread(many_changes))
    watched: list[str] = []

    @asynccontextmanager
    async def watch_opens(_: str, paths: list[str]) -> AsyncIterator[Any]:
        watched.extend(paths)
        yield SimpleNamespace(paths=paths[:10], unwatched=paths[10:])

    class Graded:
        context = None

        async def score(self, _: object) -> Verdict:
            return Verdict(1.0)

    tools: Any = SimpleNamespace(
        host=SimpleNamespace(rooms=SimpleNamespace(watch_opens=watch_opens)), egress=None
    )
    case: Any = SimpleNamespace(trajectory=None, facts={}, scorer_seconds=100)
    kits: Any = None
    context = RoomContext(tools, kits, case, findings, conditions=Conditions())
    room: Any = SimpleNamespace(guarded=("/opt/kit/scorer.py",) * 20)
    scorer: Any = Graded()
    assert (await context.watched(scorer, "dbx_1", room)).score == 1.0
    assert len(watched) == MOST_WATCHED


async def processes(_: Workers, __: Path) -> None:
    report = b'{"total": 9, "processes": [], "more": [' + b"[]," * 5 * MEBIBYTE + b"0]}"

    async def ask(_: object) -> tuple[dict[str, Any], list[int]]:
        sheet = os.memfd_create("sheet")
        os.write(sheet, report)
        return {"ok": True}, [sheet]

    running: Any = SimpleNamespace(ask=ask)
    watcher: Any = None
    inside = FirstProcessInside(lambda _id: running, watcher)
    assert (await inside.processes("dbx_1")).total == 9


READERS: list[Reader] = [script, downloads, accounts, notes, changes, processes]


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_no_text_is_felt_while_it_is_read(read: Reader, tmp_path: Path) -> None:
    live(read, tmp_path)
