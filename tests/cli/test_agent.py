"""`benchyard agent` against a real server, as a user types it."""

import json
import secrets
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchyard.cli.agent import COLUMNS, keys_line, list_agents
from benchyard.client import Client, Server
from benchyard.models.devboxes import DevboxRequest
from benchyard.models.launch import AgentMount
from benchyard.testing.server import RunningServer
from tests.cli.conftest import CommandLine

RUN = "sh {agent_dir}/run.sh {prompt_file}"


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"cli-{secrets.token_hex(4)}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A local agent: a git repository whose script was changed since."""
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent/run.sh").write_text("echo committed\n")
    script = """
        git init -q -b main && git config user.email a@b.c && git config user.name a
        git add . && git commit -qm one && git tag v1 && echo 'echo changed' > run.sh
    """
    subprocess.run(["sh", "-ec", script], cwd=tmp_path / "agent", check=True)
    return tmp_path / "agent"


def test_an_agent_is_registered_listed_shown_and_deleted(benchyard: CommandLine, name: str) -> None:
    made = json.loads(
        benchyard.ok(
            *("agent", "register", name, "--npm", "my-agent", "--version", "1.2.0", "--setup", "echo one"),
            *("--setup", "echo two", "--registry", "https://npm.example/", "--metadata", "a=b"),
            *("--run", "my-agent --model {model} {prompt_file}", "-o", "json"),
        )
    )
    assert made["id"].startswith("agt_")
    assert (made["name"], made["version"], made["metadata"]) == (name, "1.2.0", {"a": "b"})
    assert made["source"] == {
        "type": "npm",
        "npm": {
            "package_name": "my-agent",
            "registry_url": "https://npm.example/",
            "agent_setup": ["echo one", "echo two"],
        },
    }
    newer = benchyard.ok("agent", "register", name, "--pip", "my-agent", "--version", "2", "--run", "x")
    assert newer.startswith(f"{name}@2  agt_")
    listed = benchyard.ok("agent", "list", "--name", name).splitlines()
    assert [line.split()[1] for line in listed] == ["VERSION", "2", "1.2.0"]
    assert yaml.safe_load(benchyard.ok("agent", "show", name, "-o", "yaml"))["version"] == "2"
    shown = benchyard.ok("agent", "show", f"{name}@1.2.0")
    assert made["id"] in shown
    assert "my-agent --model {model} {prompt_file}" in shown
    assert made["id"] in benchyard.ok("agent", "show", made["id"])
    assert benchyard.ok("agent", "delete", f"{name}@1.2.0", name).count("deleted") == 2
    ended = benchyard("agent", "show", name)
    assert (ended.status, "benchyard agent list" in ended.err) == (4, True)
    assert "no agents" in benchyard("agent", "list", "--name", name).err


def test_those_that_come_with_the_server_are_listed(benchyard: CommandLine) -> None:
    listed = benchyard.ok("agent", "list", "--public")
    assert {"nop", "oracle", "command"} <= {line.split()[0] for line in listed.splitlines()}
    assert {"nop", "oracle"} <= {line.split()[0] for line in benchyard.ok("agent", "list").splitlines()}
    assert "public" in benchyard.ok("agent", "show", "oracle")
    assert "openai: OPENAI_API_KEY" in benchyard.ok("agent", "show", "codex")
    assert benchyard("agent", "delete", "oracle").status == 3


def test_keys_that_are_not_set_are_listed_as_missing(
    benchyard: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    stored = {secret["name"] for secret in json.loads(benchyard.ok("secret", "list", "-o", "json"))}

    def found(name: str) -> dict[str, Any]:
        listed = json.loads(benchyard.ok("agent", "list", "--name", name, "-o", "json"))
        return next(dict(each) for each in listed if each["name"] == name)

    claude = found("claude-code")
    assert claude["keys"] == {"anthropic": ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"]}
    assert claude["version"] == "2.1.325"
    assert "missing_keys" not in found("nop")
    if not stored & {"OPENAI_API_KEY", "BMJ_OPENAI_API_KEY"}:
        assert found("codex")["missing_keys"] == {"openai": ["OPENAI_API_KEY"]}
        line = benchyard.ok("agent", "list", "--name", "codex").splitlines()[1]
        assert line.split()[2] == "openai", "the key that is missing, as nothing is installed"
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    assert found("codex")["missing_keys"] == {}


def test_a_key_that_the_server_needs_not_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    options = ["--driver=fake", "--upstream=openai=http://127.0.0.1:9,no-key"]
    with (
        RunningServer(tmp_path / "data", options) as server,
        Client(Server(server.url, server.key)) as client,
    ):
        found = {each.name: each for each in list_agents(client, None, own=False)}
    assert found["codex"].missing_keys == {}
    assert keys_line(found["codex"].keys) == "openai: none needed"
    assert list(found["goose"].missing_keys or {}) == ["anthropic", "google"]
    shown = COLUMNS["MISSING KEY"]
    assert shown(found["goose"]) == "", "one key is enough"
    assert shown(found["claude-code"]) == "anthropic"
    assert shown(found["goose"].model_copy(update={"missing_keys": found["goose"].keys})) == (
        "anthropic or openai or google"
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "one of --npm"),
        (["--npm", "a", "--pip", "b"], "one of --npm"),
        (["--npm", "a", "--ref", "v1"], "--ref is for --git"),
        (["--git", "https://a/b", "--registry", "https://c"], "--registry is for"),
        (["--npm", "../a"], "package_name"),
        (["--object", "./no/such/folder"], "no folder or file"),
        (["--object", "obj_none"], "obj_none"),
        (["--git", "no-url"], "repository"),
        (["--npm", "a", "--metadata", "x"], "NAME=VALUE"),
    ],
)
def test_contradicting_options_are_refused(
    benchyard: CommandLine, name: str, options: list[str], says: str
) -> None:
    ended = benchyard("agent", "register", name, "--run", "x", *options)
    assert ended.status != 0
    assert says in ended.err
    assert benchyard("agent", "show", name).status == 4


def test_a_command_to_run_it_is_needed(benchyard: CommandLine, name: str) -> None:
    ended = benchyard("agent", "register", name, "--npm", "a")
    assert (ended.status, "--run" in ended.err) == (2, True)


def test_a_version_that_is_there_is_not_changed(benchyard: CommandLine, name: str) -> None:
    same = ("agent", "register", name, "--npm", "a", "--version", "1", "--run", "x")
    assert benchyard.ok(*same) == benchyard.ok(*same)
    ended = benchyard(*same[:-1], "y")
    assert (ended.status, "never changes" in ended.err) == (5, True)


def test_local_folders_are_sent_and_installed(
    server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    name: str,
    folder: Path,
) -> None:
    monkeypatch.setenv("BENCHYARD_URL", server.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", server.key)
    benchyard = CommandLine(monkeypatch, capfd)
    (folder / ".dockerignore").write_text(".git\n")
    sources = {
        "echo changed\n": ("--object", str(folder)),
        "echo committed\n": ("--git", str(folder), "--ref", "v1"),
    }
    with Client(Server(server.url, server.key)) as client:
        for script, source in sources.items():
            benchyard.ok("agent", "register", name, *source, "--run", RUN)
            mount = AgentMount(agent_name=name, agent_path="/srv/agent")
            with client.devboxes.open(DevboxRequest(mounts=[mount])) as box:
                assert box.run("cat /srv/agent/run.sh").stdout == script
                assert ".git" not in box.run("ls -A /srv/agent").stdout.split()
    single = benchyard.ok("agent", "register", name, "--object", str(folder / "run.sh"), "--run", RUN)
    assert single.startswith(f"{name}  agt_")
    ended = benchyard("agent", "register", name, "--git", str(folder), "--ref", "v9", "--run", RUN)
    assert (ended.status, "v9" in ended.err) == (2, True)
