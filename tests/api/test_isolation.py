"""How what is graded is kept apart from who made it: clean, answer and live; and what is told about it."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests.api.devbox import good
from tests.api.scenarios import Run, bash, command, function, results, scenario, start
from tests.api.test_scenario_runs import client_of, error_of

WORK = "/home/user/task"
SHIM = "printf '#!/bin/sh\\necho 1\\nexit 0\\n' > /tmp/shim; chmod 755 /tmp/shim"
IN_WORK = {"environment_parameters": {"working_directory": WORK}}


@pytest.fixture(scope="module")
def http(server: RunningServer) -> Iterator[httpx.Client]:
    """A client of a server with the native driver."""
    with client_of(server) as client:
        yield client
    assert leaks.find(server.data) == []


def answered(http: httpx.Client, scorer: dict[str, Any], *paths: str, **fields: Any) -> Run:
    """A run of a scenario whose answer these paths are."""
    rules = {"scoring_isolation": "answer", "answer_paths": paths}
    return start(http, scenario(http, function(scorer), **rules, **IN_WORK, **fields)["id"])


class TestClean:
    def test_the_report_tells_what_changed_and_what_ran(self, http: httpx.Client) -> None:
        launch = {"launch_commands": ["echo prepared > ~/prepared; sudo touch /etc/prepared"]}
        environment = {"working_directory": WORK, "launch_parameters": launch}
        made = scenario(
            http, function(bash("cat /etc/hostile part; echo 1")), environment_parameters=environment
        )
        run = start(http, made["id"])
        run.devbox.run(
            "echo x > ~/task/part; echo x > ~/beside; sudo sh -c 'echo x > /etc/hostile; rm /etc/hostname;"
            " chmod 777 /etc/profile'; setsid sleep 4712 >/dev/null 2>&1 &"
        )
        report = run.scored()["tamper_report"]
        changed = {each["path"]: each["kind"] for each in report["changed_outside"]}
        assert changed == {
            "/etc/hostile": "added",
            "/etc/hostname": "deleted",
            "/etc/profile": "modified",
            "/home/user/beside": "added",
        }
        assert (report["changed_outside_total"], report["changed_inside_total"]) == (4, 1)
        assert [each["command"] for each in report["processes"]] == ["sleep 4712"]
        assert report["opened_by_scorers"] == ["/etc/hostile", f"{WORK}/part"]
        run.end()

    def test_nothing_done_is_an_empty_report(self, http: httpx.Client) -> None:
        run = start(http, scenario(http, **IN_WORK)["id"])
        report = run.scored()["tamper_report"]
        assert report == {
            "changed_outside": [],
            "changed_outside_total": 0,
            "opened_outside_total": 0,
            "changed_inside_total": 0,
            "special_inside": [],
            "special_inside_total": 0,
            "processes": [],
            "processes_total": 0,
            "opened_by_scorers": [],
            "opened_by_scorers_total": 0,
            "refused": [],
            "refused_total": 0,
            "unwatched_outside": [],
            "unwatched_outside_total": 0,
            "changed_while_scored": [],
            "unknown": [],
            "notes": [],
        }
        run.end()

    def test_scripts_and_tests_are_nowhere_in_the_devbox(self, http: httpx.Client) -> None:
        """During the run and while it is being scored."""
        secret = "needle-in-no-haystack"
        files = [{"file_path": "test_hidden.py", "file_contents": f"# {secret}"}]
        made = scenario(
            http,
            function(bash(f"sleep 1 # {secret}\necho 1"), 0.5, "script"),
            function(
                {"type": "test_based_scorer", "test_command": f"sleep 1; true {secret}", "test_files": files},
                0.5,
                "tests",
            ),
            reference_output=f"# {secret}",
            **IN_WORK,
        )
        run = start(http, made["id"])
        good(run.post("score"))
        places = "/home /tmp /run /etc /var /srv /proc/*/environ /proc/*/cmdline"
        look = f"sudo grep -rslI needle-in-no-[h]aystack {places}"
        for _ in range(3):
            assert run.devbox.run(look)["stdout"] == ""
        assert run.reaches("scored")["scoring_contract_result"]["score"] == 1.0
        assert run.devbox.run(f"ls {WORK}")["stdout"] == ""
        run.end()

    @pytest.mark.parametrize(
        "attack",
        [
            f"{SHIM}; sudo cp --remove-destination /tmp/shim /usr/bin/bash",
            f"{SHIM}; sudo cp /tmp/shim /usr/local/bin/grep",
            f"{SHIM}; sudo cp --remove-destination /tmp/shim /usr/bin/grep",
            "sudo rm -f /usr/bin/grep /usr/bin/bash /usr/bin/cat; sudo touch /etc/ld.so.preload",
        ],
        ids=["shell", "path", "replaced", "gone"],
    )
    def test_the_shell_and_the_tools_of_graders_are_those_of_the_start(
        self, http: httpx.Client, attack: str
    ) -> None:
        check = "cat out; if grep -qx done out; then echo 1; else echo 0; fi"
        run = start(http, scenario(http, function(bash(check)), scoring_isolation="clean", **IN_WORK)["id"])
        run.devbox.run(f"echo no > {WORK}/out; {attack}")
        (result,) = results(run.scored())
        assert (result["score"], result["state"], result["output"]) == (0.0, "complete", "no\n0\n")
        assert result["facts"]["shell"] == "the start's own"
        run.end()

    def test_graders_find_installed_programs(self, http: httpx.Client) -> None:
        check = "installed && python3 -c 'import made' && sudo -n true && echo 1 || echo 0"
        run = start(http, scenario(http, function(bash(check)), scoring_isolation="clean", **IN_WORK)["id"])
        run.devbox.run(
            f"{SHIM}; sudo cp /tmp/shim /usr/local/bin/installed;"
            " place=$(python3 -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))');"
            " sudo mkdir -p $place; sudo touch $place/made.py"
        )
        (result,) = results(run.scored())
        assert result["score"] == 1.0, result
        run.end()


class TestAnswer:
    def test_only_the_answer_goes_over(self, http: httpx.Client) -> None:
        look = "cat out; ls; ls ~; cat /etc/evil; echo 1"
        run = answered(http, bash(look), "out")
        run.devbox.run("echo 42 > ~/task/out; echo x > ~/task/other; echo x > ~/x; sudo touch /etc/evil")
        view = run.scored()
        assert "42\nout\ntask\n" in results(view)[0]["output"]
        assert "No such file" in results(view)[0]["output"]
        # The report is about all that was done.
        changed = {each["path"] for each in view["tamper_report"]["changed_outside"]}
        assert {"/etc/evil", "/home/user/x"} <= changed
        run.end()

    def test_it_goes_onto_what_the_devbox_was_when_it_began(self, http: httpx.Client) -> None:
        launch = {
            "launch_commands": ["mkdir -p ~/task/src; echo given > ~/task/given; echo old > ~/task/src/a"]
        }
        rules = {"scoring_isolation": "answer", "answer_paths": ["src", "gone"]}
        environment = {"working_directory": WORK, "launch_parameters": launch}
        made = scenario(
            http,
            function(bash("cat given src/*; ls src; echo 1")),
            environment_parameters=environment,
            **rules,
        )
        run = start(http, made["id"])
        run.devbox.run("cd ~/task; echo forged > given; rm src/a; echo new > src/b; ln -s b src/c")
        assert results(run.scored())[0]["output"] == "given\nnew\nnew\nb\nc\n1\n"
        run.end()

    def test_refused_files_of_an_answer_are_named(self, http: httpx.Client) -> None:
        run = answered(http, bash("ls -A out; echo 1"), "out")
        run.devbox.run(
            "mkdir ~/task/out; cd ~/task/out; echo x > fine; ln -s /etc/shadow stolen;"
            " ln -s ../../.profile up; ln -s fine inside; mkfifo pipe; sudo mknod zero c 1 5;"
            " cp /bin/true suid; chmod u+s suid"
        )
        view = run.scored()
        assert results(view)[0]["output"] == "fine\ninside\n1\n"
        refused = " ".join(view["tamper_report"]["refused"])
        for name in ("stolen", "up", "pipe", "suid"):
            assert f"/out/{name}" in refused
        run.end()

    def test_too_much_counts_0(self, http: httpx.Client) -> None:
        run = answered(http, command("true"), "out")
        run.devbox.run("mkdir ~/task/out; truncate -s 2G ~/task/out/sparse")
        view = run.scored()
        (result,) = results(view)
        assert (result["state"], result["cause"], result["score"]) == ("complete", "answer", 0.0)
        assert "GiB" in result["reason"] or "bytes" in result["reason"]
        run.end()

    def test_metadata_says_it_too(self, http: httpx.Client) -> None:
        metadata = {"benchyard.scoring": "answer", "benchyard.answer_paths": json.dumps(["x", "/srv/out"])}
        made = scenario(http, function(command("grep -q 42 /srv/out")), metadata={**metadata, "k": "v"})
        assert (made["scoring_isolation"], made["answer_paths"]) == ("answer", ["x", "/srv/out"])
        run = start(http, made["id"])
        run.devbox.run("echo 42 | sudo tee /srv/out")
        assert run.scored()["scoring_contract_result"]["score"] == 1.0
        run.end()

    @pytest.mark.parametrize("paths", [[], ["../x"], ["/"], ["a/../../b"], ["x\0y"]])
    def test_paths_that_are_none(self, http: httpx.Client, paths: list[str]) -> None:
        body = {
            "name": "bad",
            "input_context": {"problem_statement": "x"},
            "scoring_contract": {"scoring_function_parameters": [function(command("true"))]},
            "scoring_isolation": "answer",
            "answer_paths": paths,
        }
        assert "answer_paths" in error_of(http.post("/v1/scenarios", json=body), 400)


class TestLive:
    def test_services_stay_and_commands_are_killed(self, http: httpx.Client) -> None:
        serve = "python3 -m http.server 8123 --bind 127.0.0.1 --directory /home/user/task"
        look = (
            "import urllib.request as r, subprocess as s\n"
            "print(r.urlopen('http://127.0.0.1:8123/page').read().decode())\n"
            "print(s.run(['pgrep', '-fc', 'sleep 471[3]'], capture_output=True, text=True).stdout)\n"
            "print(1.0)\n"
        )
        made = scenario(
            http,
            function(bash(f"python3 - <<'E'\n{look}E\n"), 0.5, "bash"),
            function({"type": "python_script_scorer", "python_script": look}, 0.5, "python"),
            scoring_isolation="live",
            **IN_WORK,
        )
        run = start(http, made["id"])
        run.devbox.run(f"echo served > ~/task/page; setsid {serve} >/dev/null 2>&1 &")
        connects = "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8123))'"
        listening = f"until {connects}; do sleep 0.1; done"
        run.devbox.run(listening)
        agent = run.devbox.start("while true; do sleep 4713; done")
        view = run.scored()
        assert [each["output"] for each in results(view)] == ["served\n\n0\n\n1.0\n"] * 2
        assert view["scoring_contract_result"]["isolation"] == "live"
        assert run.devbox.ended(agent)["exit_status"] == 137
        assert any("http.server" in each["command"] for each in view["tamper_report"]["processes"])
        # Nothing of the scorers is left behind.
        assert run.devbox.run("ls -d /run/benchyard-* 2>/dev/null | wc -l")["stdout"] == "0\n"
        run.end()

    def test_a_devbox_that_rests_cannot_be_scored_live(self, http: httpx.Client) -> None:
        run = start(http, scenario(http, scoring_isolation="live")["id"])
        good(run.devbox.post("suspend"))
        run.devbox.reaches("suspended")
        (result,) = results(run.scored())
        assert (result["state"], "suspended" in result["reason"]) == ("error", True)
        run.end()
