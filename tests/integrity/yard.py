"""Where attacks are tried: runs of one server, and what a naive harness would make of them."""

import contextlib
import functools
import http.server
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx

from benchyard.testing.server import RunningServer
from tests.api.devbox import create, eventually, good
from tests.api.scenarios import Run, function, scenario
from tests.integrity.attacks import HONEST, Attack
from tests.integrity.graders import SHOWN_TEST, STUB, WORK, Grader, pytest_archive

_GRADE = "/tmp/grader/grade.sh"
_STILL_WAITING = 408
_PATIENCE_SECONDS = 120.0
_LOGS = "/tmp/logs"
_SAID = f"cd {WORK} && bash {_GRADE}"
_SET_UP = """\
place=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
sudo mkdir -p "$place" && sudo tar -xzf ~/pytest.tar.gz -C "$place"
rm ~/pytest.tar.gz ~/.sudo_as_admin_successful
mkdir -p ~/task && cd ~/task && python3 -m pytest --version
"""
_REPOSITORY = """\
cd ~/task && git init -q . && git add solution.py test_total.py
git -c user.name=somebody -c user.email=somebody@example.com commit -qm 'The task'
"""


class Yard:
    """Scenarios of the task on a server, and runs of them."""

    def __init__(self, server: RunningServer, api: httpx.Client, site: int) -> None:
        self._server = server
        self._api = api
        self._site = site
        self._lock = threading.Lock()
        self.snapshot = self._set_up()
        """A disk with pytest, and with a task that is not done."""

    def _set_up(self) -> str:
        """The snapshot of the disk that all runs begin with."""
        devbox = create(self._api)
        upload = {"file": ("pytest", pytest_archive())}
        path = {"path": "~/pytest.tar.gz"}
        good(self._api.post(f"/v1/devboxes/{devbox.id}/upload_file", data=path, files=upload))
        made = devbox.run(_SET_UP)
        assert made["exit_status"] == 0, made
        for name, text in {"solution.py": STUB, "test_total.py": SHOWN_TEST}.items():
            good(devbox.post("write_file_contents", {"file_path": f"{WORK}/{name}", "contents": text}))
        made = devbox.run(_REPOSITORY)
        assert made["exit_status"] == 0, made
        id: str = good(devbox.post("snapshot_disk"))["id"]
        devbox.post("shutdown")
        return id

    @functools.cache  # noqa: B019  it lives as long as the tests
    def _scenario(self, grader: Grader, mode: str, *, pause: bool, online: bool, tracing: bool) -> str:
        fields: dict[str, Any] = {"answer_paths": ["solution.py"]} if mode == "answer" else {}
        fields["scoring_tracing"] = tracing
        if online:
            fields["metadata"] = {"benchyard.network": "host"}
        made: str = scenario(
            self._api,
            function(grader.scorer(pause=pause)),
            scoring_isolation=mode,
            environment_parameters={"snapshot_id": self.snapshot, "working_directory": WORK},
            reference_output="expected: 12",
            **fields,
        )["id"]
        return made

    @contextlib.contextmanager
    def _run(
        self, grader: Grader, mode: str, *, pause: bool = False, online: bool = False, tracing: bool = False
    ) -> Iterator[Run]:
        with self._lock:
            id = self._scenario(grader, mode, pause=pause, online=online, tracing=tracing)
        run = Run(self._api, good(self._api.post("/v1/scenarios/start_run", json={"scenario_id": id})))
        try:
            devbox = run.devbox.reaches("running", "failure")
            assert devbox["status"] == "running", devbox
            yield run
        finally:
            run.end()

    def _let_loose(self, run: Run, attack: Attack) -> None:
        address = socket.gethostbyname(socket.gethostname())
        port = httpx.URL(self._server.url).port
        told = f"ANSWERS_PORT={self._site} SERVER_PORT={port} ANSWERS_HOST={address}"
        ended = _ended(run, f"export {told}\n{attack.script}")
        assert ended["exit_status"] == 0, (attack.name, ended)

    def in_place(self, attack: Attack, grader: Grader) -> float:
        """The score of a harness that runs the grader where the agent was, and believes what it finds."""
        with self._run(grader, "clean", online=attack.online) as run:
            if attack.shipped:
                self._ship(run, attack, grader)
            self._let_loose(run, attack)
            if not attack.shipped:
                self._ship(run, attack, grader)
            if attack.reward == "file":
                return _number(_ended(run, _to_file(grader))["stdout"])
            if grader.prints:
                return _number(_ended(run, f"{_SAID} | tail -n 1")["stdout"])
            return float(_ended(run, _SAID)["exit_status"] == 0)

    def _ship(self, run: Run, attack: Attack, grader: Grader) -> None:
        files = {f"{WORK}/{path}": text for path, text in grader.files}
        for path, text in {**files, _GRADE: grader.text(pause=attack.pause)}.items():
            good(run.devbox.post("write_file_contents", {"file_path": path, "contents": text}))

    def scored(self, attack: Attack, grader: Grader, mode: str, *, tracing: bool = False) -> dict[str, Any]:
        """The run as our own scoring leaves it; with `tracing`, of a scenario whose scorers need that."""
        with self._run(grader, mode, pause=attack.pause, tracing=tracing) as run:
            self._let_loose(run, attack)
            assert good(run.post("score"))["state"] == "scoring"
            if attack.name == "late-work" and mode != "live":
                self._work_late(run)
            states = {"states": ["scored"], "timeout_seconds": 25}
            while (answer := run.post("wait_for_state", states)).status_code == _STILL_WAITING:
                pass
            return good(answer)

    def _work_late(self, run: Run) -> None:
        """Tell the agent that its disk was frozen, and see that it does the work then."""
        folder = self._server.data / "host/devboxes"
        eventually(lambda: any(folder.glob(f"{run.id}-1-0-*")), "the grader's devbox")
        run.devbox.run("touch /tmp/grading")
        done = f"grep -q sum {WORK}/solution.py"
        eventually(lambda: run.devbox.run(done)["exit_status"] == 0, "the work")


def _ended(run: Run, command: str) -> dict[str, Any]:
    """An execution at its end, however busy the machine is."""
    path = f"executions/{run.devbox.start(command)}/wait_for_status"
    deadline = time.monotonic() + _PATIENCE_SECONDS
    body = {"statuses": ["completed"], "timeout_seconds": 25}
    while (answer := run.devbox.post(path, body)).status_code == _STILL_WAITING:
        assert time.monotonic() < deadline, (command, run.devbox.run("ps -ef")["stdout"])
    return good(answer)


def _to_file(grader: Grader) -> str:
    said = f"| tail -n 1 > {_LOGS}/reward.txt"
    passed = f"> /dev/null && echo 1.0 > {_LOGS}/reward.txt || echo 0.0 > {_LOGS}/reward.txt"
    read = f"for name in json txt; do cat {_LOGS}/reward.$name 2> /dev/null && exit; done"
    return f"mkdir -p {_LOGS}; {_SAID} {said if grader.prints else passed}; sleep 0.3; {read}"


def _number(text: str) -> float:
    lines = text.split()
    return float(lines[-1]) if lines else 0.0


@contextlib.contextmanager
def opened(server: RunningServer) -> Iterator[Yard]:
    """A yard on a server, with a site beside it that publishes the answer."""

    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(HONEST.script.partition("'")[2].partition("\\n")[0].encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    headers = {"authorization": f"Bearer {server.key}"}
    limits = httpx.Limits(max_connections=50)
    with (
        http.server.ThreadingHTTPServer(("0.0.0.0", 0), Site) as site,
        httpx.Client(base_url=server.url, headers=headers, timeout=60, limits=limits) as api,
    ):
        thread = threading.Thread(target=site.serve_forever, daemon=True)
        thread.start()
        try:
            yield Yard(server, api, site.server_address[1])
        finally:
            site.shutdown()
            thread.join()
