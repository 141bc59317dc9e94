"""Ssh into devboxes, with the clients that people use."""

import fcntl
import json
import os
import select
import shlex
import signal
import socket
import ssl
import stat
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchyard.api.ssh.sftp import SftpFiles, entries_from_stat
from benchyard.api.ssh.transport import is_for_ssh
from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, create, eventually, good, refusal
from tests.api.tunnelled import listening

PATIENCE_SECONDS = 60
QUIET = ("-o", "LogLevel=ERROR", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-F", "none")
LARGE = 40 * 1024**2


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that speaks ssh on a port of its own, started as `nohup` starts programs."""
    with ExitStack() as stack:
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            data = tmp_path_factory.mktemp("ssh") / "data"
            server = stack.enter_context(RunningServer(data, ["--ssh-port", "0"]))
        finally:
            signal.signal(signal.SIGHUP, before)
        yield server


@pytest.fixture(scope="module")
def api(running: RunningServer) -> Iterator[httpx.Client]:
    with api_of(running) as client:
        yield client


@pytest.fixture(scope="module")
def ssh(running: RunningServer, api: httpx.Client, tmp_path_factory: pytest.TempPathFactory) -> "Ssh":
    """A devbox that the tests of this file share, and a key of it."""
    return Ssh.of(running, create(api), tmp_path_factory.mktemp("key"))


def api_of(server: RunningServer) -> httpx.Client:
    headers = {"authorization": f"Bearer {server.key}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=40)


@dataclass(frozen=True)
class Ssh:
    """How a client gets into a devbox."""

    devbox: DevboxOverHttp
    user: str
    port: int
    options: tuple[str, ...]

    @classmethod
    def of(cls, server: RunningServer, devbox: DevboxOverHttp, folder: Path) -> "Ssh":
        made = good(devbox.post("create_ssh_key"))
        port = json.loads((server.data / "server.json").read_text())["ssh_port"]
        options = identity(made, folder, f"[127.0.0.1]:{port}")
        return cls(devbox, made["ssh_user"], port, options)

    def command(self, *words: str, options: Sequence[str] = ()) -> list[str]:
        target = f"{self.user}@127.0.0.1"
        return ["ssh", *self.options, *options, "-p", str(self.port), target, *words]

    def run(
        self, *words: str, options: Sequence[str] = (), given: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        return ran(self.command(*words, options=options), given)

    def copy(self, *words: str, program: str = "scp") -> subprocess.CompletedProcess[bytes]:
        """scp, with `box:` for the devbox."""
        named = [word.replace("box:", f"{self.user}@127.0.0.1:") for word in words]
        return ran([program, *self.options, "-P", str(self.port), *named])

    def sftp(self, *lines: str) -> subprocess.CompletedProcess[bytes]:
        command = ["sftp", *self.options, "-P", str(self.port), "-b", "-", f"{self.user}@127.0.0.1"]
        return ran(command, "".join(f"{line}\n" for line in lines).encode())


def identity(made: dict[str, Any], folder: Path, known_as: str) -> tuple[str, ...]:
    """Options by which a client shows this key, and knows the server."""
    key, known = folder / "key", folder / "known_hosts"
    key.write_text(made["ssh_private_key"])
    key.chmod(0o600)
    known.write_text(f"{known_as} {made['host_key']}\n")
    return ("-i", str(key), "-o", f"UserKnownHostsFile={known}", "-o", "StrictHostKeyChecking=yes", *QUIET)


def ran(command: Sequence[str], given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, input=given, capture_output=True, timeout=PATIENCE_SECONDS, check=False)


class TestCommands:
    def test_a_command_with_its_output_and_its_status(self, ssh: Ssh) -> None:
        done = ssh.run("echo out; echo err >&2; exit 7")
        assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 7)

    def test_commands_run_as_the_user_in_the_home(self, ssh: Ssh) -> None:
        assert ssh.run("id -un; pwd").stdout == b"user\n/home/user\n"

    def test_input_is_streamed_bytes_are_kept(self, ssh: Ssh) -> None:
        content = os.urandom(LARGE // 8)
        done = ssh.run("cat", given=content)
        assert done.stdout == content

    def test_a_command_that_reads_nothing_does_not_wait_for_input(self, ssh: Ssh) -> None:
        process = subprocess.Popen(ssh.command("true"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.wait(PATIENCE_SECONDS) == 0
        process.communicate()

    def test_a_script_on_standard_input(self, ssh: Ssh) -> None:
        assert ssh.run(given=b"cd /tmp\npwd\nexit 3\n").stdout == b"/tmp\n"

    def test_a_language_is_taken_over_and_nothing_else(self, ssh: Ssh) -> None:
        command = ssh.command("echo $LC_TIME $SECRET", options=["-o", "SendEnv=LC_TIME SECRET"])
        environment = {**os.environ, "LC_TIME": "C", "SECRET": "x"}
        done = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
        assert done.stdout == b"C\n"

    def test_a_daemon_goes_on_and_does_not_hold_the_session(self, ssh: Ssh) -> None:
        assert ssh.run("nohup sleep 4321 & echo begun").stdout == b"begun\n"
        assert ssh.run("pgrep -f 'sleep 432[1]'").returncode == 0
        assert ssh.run("pkill -f 'sleep 432[1]'").returncode == 0

    def test_a_client_that_goes_hangs_up(self, ssh: Ssh) -> None:
        process = subprocess.Popen(ssh.command("echo on; sleep 4322"), stdout=subprocess.PIPE)
        assert process.stdout
        assert process.stdout.readline() == b"on\n"
        process.kill()
        process.communicate()
        eventually(lambda: ssh.run("pgrep -f 'sleep 432[2]'").returncode == 1, "the command's end")

    def test_output_over_its_limit_is_said_to_be_cut(self, ssh: Ssh) -> None:
        done = subprocess.run(
            ssh.command("head -c 300000000 /dev/zero"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=300,
            check=False,
        )
        assert b"benchyard: " in done.stderr

    def test_unknown_subsystem_is_refused(self, ssh: Ssh) -> None:
        assert ssh.run("-s", "other-subsystem").returncode != 0


class TestTerminals:
    def test_a_terminal_with_its_size_and_its_status(self, ssh: Ssh) -> None:
        told = on_terminal(ssh.command(options=["-tt"]), b"stty size; echo $TERM; tty; exit 5\n", (101, 31))
        assert b"31 101" in told.printed
        assert b"xterm-tests" in told.printed
        assert b"/dev/pts/" in told.printed
        assert told.status == 5

    def test_resizing(self, ssh: Ssh) -> None:
        script = "trap 'stty size; exit 6' WINCH; echo re''ady; while :; do sleep 0.1; done"
        told = on_terminal(ssh.command(script, options=["-tt"]), b"", (80, 24), resize=(123, 45))
        assert b"45 123" in told.printed
        assert told.status == 6

    def test_a_command_on_a_terminal_is_interrupted_by_a_key(self, ssh: Ssh) -> None:
        told = on_terminal(
            ssh.command("echo re''ady; sleep 4323", options=["-tt"]), b"", (80, 24), key=b"\x03"
        )
        assert told.status == 130
        assert ssh.run("pgrep -f 'sleep 432[3]'").returncode == 1


@dataclass
class Told:
    printed: bytes
    status: int


def on_terminal(
    command: Sequence[str],
    typed: bytes,
    size: tuple[int, int],
    *,
    resize: tuple[int, int] | None = None,
    key: bytes = b"",
) -> Told:
    """Run a client on a terminal of its own; once it prints `ready`, resize it or press a key."""
    ours, theirs = os.openpty()
    set_size(theirs, size)
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-tests"},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    os.write(ours, typed)
    printed = printed_until(ours, b"ready") if resize or key else b""
    if resize:
        set_size(ours, resize)
    os.write(ours, key)
    printed += printed_until(ours, None)
    try:
        return Told(printed, process.wait(PATIENCE_SECONDS))
    finally:
        process.kill()
        os.close(ours)


def set_size(terminal: int, size: tuple[int, int]) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))


def printed_until(terminal: int, text: bytes | None) -> bytes:
    """What is printed up to a text, or to the end."""
    printed = b""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and (text is None or text not in printed):
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                printed += os.read(terminal, 65536)
            except OSError:
                break
    return printed


class TestFiles:
    @pytest.mark.parametrize("options", [(), ("-O",)], ids=["sftp", "old-protocol"])
    def test_copying_both_ways(self, ssh: Ssh, tmp_path: Path, options: tuple[str, ...]) -> None:
        content = os.urandom(LARGE if not options else 1_000_000)
        (tmp_path / "file").write_bytes(content)
        (tmp_path / "file").chmod(0o750)
        os.utime(tmp_path / "file", (1_000_000_000, 1_000_000_001))
        done = ssh.copy(*options, "-p", str(tmp_path / "file"), "box:there")
        assert done.returncode == 0, done.stderr
        assert ssh.run("stat -c '%a %Y %U' there").stdout == b"750 1000000001 user\n"
        done = ssh.copy(*options, "-p", "box:there", str(tmp_path / "back"))
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "back").read_bytes() == content
        assert stat.S_IMODE((tmp_path / "back").stat().st_mode) == 0o750

    def test_copying_a_tree(self, ssh: Ssh, tmp_path: Path) -> None:
        tree = tmp_path / "tree"
        for name in ("a b", "quote'", "-dash", "new\nline", "sub/deep", "ümlaut", "$HOME", ".hidden"):
            file = tree / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(name)
        done = ssh.copy("-r", str(tree), "box:tree")
        assert done.returncode == 0, done.stderr
        assert ssh.run("cat tree/sub/deep").stdout == b"sub/deep"
        done = ssh.copy("-r", "box:tree", str(tmp_path / "back"))
        assert done.returncode == 0, done.stderr
        found = {
            str(path.relative_to(tmp_path / "back")): path.read_text()
            for path in (tmp_path / "back").rglob("*")
            if path.is_file()
        }
        assert found == {name: name for name in found}
        assert len(found) == 8

    def test_every_verb_of_sftp(self, ssh: Ssh, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("content")
        ssh.run("rm -rf verbs; mkdir verbs")
        done = ssh.sftp(
            "cd verbs",
            f"put {tmp_path / 'file'} one",
            "mkdir folder",
            "rename one folder/two",
            "ln -s folder/two link",
            "ln folder/two hard",
            "chmod 600 hard",
            "ls -la",
            "pwd",
            "rm hard",
            f"get link {tmp_path / 'back'}",
            "mkdir empty",
            "rmdir empty",
        )
        assert done.returncode == 0, done.stderr + done.stdout
        assert (tmp_path / "back").read_text() == "content"
        assert b"/home/user/verbs" in done.stdout
        assert b"lrwx" in done.stdout
        assert ssh.run("cd verbs; ls; readlink link; cat link").stdout == b"folder\nlink\nfolder/two\ncontent"

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("get none here", b"not found"),
            ("put /etc/hostname none/there", b"No such file"),
            ("put /etc/hostname /etc/forbidden", b"Permission denied"),
            ("get /etc/shadow here", b"Permission denied"),
            ("rmdir .", b""),
            ("rm .", b""),
            ("mkdir .bashrc-is-a-file/x", b""),
            ("rename none some", b"No such file"),
        ],
    )
    def test_impossible_sftp_command_is_refused(
        self, ssh: Ssh, tmp_path: Path, line: str, said: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        done = ssh.sftp(line)
        assert done.returncode == 1, done.stdout
        assert said in done.stderr

    def test_a_file_is_replaced_resumed_and_changed_in_place(self, ssh: Ssh, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("longer than before")
        ssh.run("printf longer > partial")
        done = ssh.sftp(f"reput {tmp_path / 'file'} partial")
        assert done.returncode == 0, done.stderr
        assert ssh.run("cat partial").stdout == b"longer than before"
        (tmp_path / "file").write_text("short")
        assert ssh.copy(str(tmp_path / "file"), "box:partial").returncode == 0
        assert ssh.run("cat partial").stdout == b"short"

    def test_no_verb_is_left_that_works_on_this_machines_files(self) -> None:
        kept = {"connection", "channel", "env", "logger", "convert_attrs", "format_longname"}
        verbs = {name for name in vars(asyncssh.SFTPServer) if not name.startswith("_")}
        assert verbs - kept - set(vars(SftpFiles)) == set()

    @given(
        st.lists(
            st.binary(min_size=1, max_size=20).map(
                lambda name: name.replace(b"/", b"").replace(b"\0", b"") or b"x"
            )
        )
    )
    def test_a_listing_tells_any_names_apart(self, names: list[bytes]) -> None:
        told = b"".join(b"/81a4 %d 1000 1000 5 6 ./%b\n" % (size, name) for size, name in enumerate(names))
        found = [(entry.filename, entry.attrs.size) for entry in entries_from_stat(told)]
        assert found == [(name, size) for size, name in enumerate(names)]


class TestForwarding:
    def test_a_port_of_the_devbox(self, ssh: Ssh) -> None:
        port = listening(ssh.devbox)
        with forwarded(ssh, f"localhost:{port}") as local:
            assert httpx.get(f"http://127.0.0.1:{local}/here", timeout=30).text == "hello from /here"
            assert (
                httpx.get(f"http://127.0.0.1:{local}/large?{LARGE}", timeout=60).num_bytes_downloaded == LARGE
            )

    def test_neither_other_machines_nor_closed_ports_nor_back(self, ssh: Ssh, running: RunningServer) -> None:
        ours = httpx.URL(running.url).port
        for target in (f"127.0.0.1:{ours}", f"127.0.0.2:{ours}", "192.0.2.1:80"):
            with forwarded(ssh, target) as local, pytest.raises(httpx.TransportError):
                httpx.get(f"http://127.0.0.1:{local}/healthz", timeout=30)
        done = ssh.run("true", options=["-R", "0:localhost:1", "-o", "ExitOnForwardFailure=yes"])
        assert done.returncode == 255


class forwarded:
    """A local port that leads to a port of the devbox, while the block lasts."""

    def __init__(self, ssh: Ssh, target: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port: int = probe.getsockname()[1]
        options = ["-N", "-L", f"{self._port}:{target}", "-o", "ExitOnForwardFailure=yes"]
        self._command = ssh.command(options=options)

    def __enter__(self) -> int:
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        eventually(self._listens, "the forwarded port")
        return self._port

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._process.wait()


class TestWhoMayEnter:
    def test_a_key_opens_its_own_devbox_only(
        self, running: RunningServer, api: httpx.Client, ssh: Ssh, tmp_path: Path
    ) -> None:
        other = Ssh.of(running, create(api, launch_parameters=named("worker")), tmp_path)
        assert other.run("hostname; id -un").stdout.split()[-1] == b"worker"
        other.devbox.run("echo mine > where")
        assert ssh.run("cat where").returncode == 1
        wrong = [*other.command("true")]
        wrong[wrong.index("worker@127.0.0.1")] = "user@127.0.0.1"
        assert ran(wrong).returncode == 255
        other.devbox.post("shutdown")
        eventually(lambda: other.run("true").returncode == 255, "the key to be forgotten")

    def test_nothing_but_a_key_is_taken(self, ssh: Ssh, tmp_path: Path) -> None:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "own"], check=True)
        known = ssh.options[ssh.options.index("-o") + 1]
        stranger = [
            "ssh",
            "-v",
            "-i",
            str(tmp_path / "own"),
            "-o",
            known,
            "-F",
            "none",
            "-o",
            "BatchMode=yes",
        ]
        done = ran([*stranger, "-p", str(ssh.port), f"{ssh.user}@127.0.0.1", "true"])
        assert done.returncode == 255
        assert b"Authentications that can continue: publickey\r\n" in done.stderr

    def test_keys_are_kept_over_rest_and_restart(self, tmp_path: Path) -> None:
        with RunningServer(tmp_path / "data", ["--ssh-port", "0"]) as server, api_of(server) as client:
            devbox = create(client)
            (tmp_path / "one").mkdir()
            (tmp_path / "two").mkdir()
            first, second = (Ssh.of(server, devbox, tmp_path / name) for name in ("one", "two"))
            assert first.run("echo a").stdout == second.run("echo a").stdout == b"a\n"
            left = subprocess.Popen(
                first.command("echo on; cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            assert left.stdout
            assert left.stdout.readline() == b"on\n"
            server.kill()
            left.communicate(timeout=PATIENCE_SECONDS)
            server.start()
            again = Ssh(devbox, first.user, ssh_port(server), tuple(renamed(first, ssh_port(server))))
            assert again.run("echo still").stdout == b"still\n"
            eventually(lambda: again.run("pgrep -x cat").returncode == 1, "who was left to be hung up on")
            good(devbox.post("suspend"))
            devbox.reaches("suspended")
            asleep = again.run("true")
            assert asleep.returncode == 255
            assert b"resume it first" in asleep.stderr
            good(devbox.post("resume"))
            devbox.reaches("running")
            assert again.run("echo awake").stdout == b"awake\n"
            host_key = server.data / "ssh-host-key"
            assert stat.S_IMODE(host_key.stat().st_mode) == 0o600

    def test_bad_requests(self, api: httpx.Client, ssh: Ssh) -> None:
        refusal(api.post("/v1/devboxes/dbx_none/create_ssh_key"), 404)
        ended = create(api)
        ended.post("shutdown")
        refusal(ended.post("create_ssh_key"), 400)
        crowded = create(api)
        for _ in range(100):
            good(crowded.post("create_ssh_key"))
        assert "100" in refusal(crowded.post("create_ssh_key"), 429)
        crowded.post("shutdown")
        made = good(ssh.devbox.post("create_ssh_key"))
        assert made["id"] == ssh.devbox.id
        assert made["ssh_private_key"].startswith("-----BEGIN OPENSSH PRIVATE KEY-----\n")
        assert made["ssh_private_key"] not in json.dumps(ssh.devbox.view())

    def test_nothing_is_left_of_connections(self, ssh: Ssh, running: RunningServer, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")

        def once() -> None:
            ssh.run("true")
            ssh.copy(str(tmp_path / "file"), "box:small")
            with socket.create_connection(("127.0.0.1", ssh.port)) as half:
                half.recv(4)

        once()
        folder = Path(f"/proc/{running.pid}/fd")
        eventually(
            lambda: "/bin/sh" not in ssh.devbox.run("pgrep -a -x sh | grep -v pgrep; true")["stdout"], "x"
        )
        before = len(list(folder.iterdir()))
        for _ in range(5):
            once()
        eventually(lambda: len(list(folder.iterdir())) <= before, "all descriptors to be closed")
        assert ssh.devbox.run("pgrep -x sh")["exit_status"] == 1


def named(user: str) -> dict[str, Any]:
    return {"user_parameters": {"username": user, "uid": 4321}}


def ssh_port(server: RunningServer) -> int:
    port: int = json.loads((server.data / "server.json").read_text())["ssh_port"]
    return port


def renamed(ssh: Ssh, port: int) -> Iterator[str]:
    """The options of a client for which the server has another port now."""
    for option in ssh.options:
        if option.startswith("UserKnownHostsFile="):
            known = Path(option.partition("=")[2])
            known.write_text(known.read_text().replace(f":{ssh.port}", f":{port}"))
        yield option


class TestBehindTls:
    def test_as_the_official_command_line_connects(self, tmp_path: Path) -> None:
        options = ["--tls-self-signed", "--domain", "api.yard.test"]
        with RunningServer(tmp_path / "data", options) as server:
            trusted = server.data / "tls" / "ca.pem"
            port = httpx.URL(server.url).port
            headers = {"authorization": f"Bearer {server.key}", "host": "api.yard.test"}
            context = ssl.create_default_context(cafile=trusted)
            with httpx.Client(base_url=server.url, headers=headers, verify=context, timeout=40) as client:
                devbox = create(client)
                made = good(devbox.post("create_ssh_key"))
            assert made["url"].endswith(".ssh.yard.test")
            proxy = f"openssl s_client -quiet -verify_return_error -verify_hostname %h -CAfile {trusted} "
            proxy += f"-servername %h -connect 127.0.0.1:{port} 2>/dev/null"
            way = ["-o", f"ProxyCommand={proxy}", *identity(made, tmp_path, made["url"])]
            target = f"{made['ssh_user']}@{made['url']}"
            done = ran(["ssh", *way, target, "cat; exit 4"], b"through tls")
            assert (done.stdout, done.returncode) == (b"through tls", 4), done.stderr
            (tmp_path / "file").write_bytes(os.urandom(3_000_000))
            assert ran(["scp", *way, str(tmp_path / "file"), f"{target}:there"]).returncode == 0
            assert ran(["ssh", *way, target, "stat -c %s there"]).stdout == b"3000000\n"

    @pytest.mark.parametrize(
        ("name", "is_ssh"),
        [
            ("ssh.yard.test", True),
            (f"{'a' * 32}.ssh.yard.test", True),
            ("api.yard.test", False),
            ("api.ssh.test", False),
            ("ssh", False),
            ("", False),
            (f"{'a' * 32}.tunnel.yard.test", False),
        ],
    )
    def test_host_names_for_ssh(self, name: str, is_ssh: bool) -> None:
        assert is_for_ssh(name) is is_ssh


def test_a_server_without_the_package_says_how_to_get_it(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "asyncssh.py").write_text("raise ModuleNotFoundError('no', name='asyncssh')\n")
    environment = {
        "PYTHONPATH": os.pathsep.join([str(hidden), *filter(None, [os.environ.get("PYTHONPATH")])])
    }
    with (
        RunningServer(tmp_path / "data", ["--driver", "fake"], environment) as server,
        api_of(server) as client,
    ):
        devbox = create(client)
        assert "pip install 'benchyard[ssh]'" in refusal(devbox.post("create_ssh_key"), 400)
    command = [sys.executable, "-m", "benchyard.cli.main", "serve", "--ssh-port", "0", "--port", "0"]
    done = subprocess.run(
        [*command, "--data", str(tmp_path / "other"), "--driver", "fake"],
        env={**os.environ, **environment},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, shlex.join(command)
    assert b"benchyard[ssh]" in done.stderr
