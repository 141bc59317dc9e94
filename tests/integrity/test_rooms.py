"""What makes scores trustworthy, one thing at a time: rooms of scorers, and reports that cannot be dodged."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.api.devbox import good
from tests.api.scenarios import Run, bash, command, function, results, scenario, start

AS_NOBODY = "sudo -n -u nobody"
TRACE = "import ctypes; print(float(ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0))"
TRACES = {"benchyard.scoring_tracing": "true"}


@pytest.fixture(scope="module")
def http(server: RunningServer) -> Iterator[httpx.Client]:
    """A client of a server with the native driver."""
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


def run_of(http: httpx.Client, scorer: dict[str, Any], **fields: Any) -> Run:
    return start(http, scenario(http, function(scorer), **fields)["id"])


@pytest.mark.parametrize("mode", ["clean", "live"])
def test_another_user_cannot_read_what_the_scorer_expects(http: httpx.Client, mode: str) -> None:
    files = ('"$0"', '"$BENCHYARD_SCORER_CONTEXT_FILE"')
    look = " && ".join(f"cat {file} > /dev/null && ! {AS_NOBODY} cat {file}" for file in files)
    run = run_of(http, command(look), scoring_isolation=mode)
    view = run.scored()
    assert view["scoring_contract_result"]["score"] == 1.0, results(view)
    assert "Permission denied" in results(view)[0]["output"]
    run.end()


@pytest.mark.parametrize("mode", ["clean", "live"])
@pytest.mark.parametrize("said", [{}, {"scoring_tracing": True}, {"metadata": TRACES}], ids=str)
def test_processes_of_a_room_trace_each_other_only_where_the_scenario_says_so(
    http: httpx.Client, said: dict[str, Any], mode: str
) -> None:
    run = run_of(http, bash(f"python3 -c '{TRACE}'"), scoring_isolation=mode, **said)
    view = run.scored()
    assert view["scoring_contract_result"]["score"] == (1.0 if said else 0.0)
    assert view["tamper_report"]["notes"] == []
    run.end()


def test_tracing_is_allowed_before_and_after_live_scoring(http: httpx.Client) -> None:
    run = run_of(http, bash(f"python3 -c '{TRACE}'"), scoring_isolation="live")
    for _ in range(2):
        assert run.devbox.run(f"python3 -c '{TRACE}'")["stdout"] == "1.0\n"
        assert run.scored()["scoring_contract_result"]["score"] == 0.0
    assert run.devbox.run(f"python3 -c '{TRACE}'")["stdout"] == "1.0\n"
    run.end()


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("planted", ["true", "cp /tmp/whole report.xml"])
def test_a_pass_without_the_runners_report_counts_for_nothing(
    http: httpx.Client, public: bool, planted: str
) -> None:
    whole = '<testsuite tests="1" failures="0" errors="0" skipped="0"><testcase/></testsuite>'
    runner = f"import solution\nwith open('report.xml', 'w') as file:\n    print({whole!r}, file=file)\n"
    scorer = {
        "type": "test_based_scorer",
        "test_command": "python3 runner.py --junitxml=report.xml",
        "test_files": [{"file_path": "runner.py", "file_contents": runner}],
    }
    run = run_of(http, scorer, metadata={"benchyard.benchmark": "some"} if public else {})
    run.devbox.run("echo 'x = 1' > solution.py")
    honest = run.scored()
    assert (honest["scoring_contract_result"]["score"], results(honest)[0].get("suspect")) == (1.0, None)
    run.devbox.run(f"echo '{whole}' > /tmp/whole; {planted}; echo 'import os; os._exit(0)' > solution.py")
    view = run.scored()
    assert view["scoring_contract_result"]["score"] == float(public)
    assert "report" in (results(view)[0]["suspect"] if public else results(view)[0]["output"])
    run.end()


def test_graded_disk_is_the_reported_one(http: httpx.Client) -> None:
    """Something that comes and goes all the time is in both or in none: the disk is frozen once."""
    run = run_of(
        http,
        bash("ls /srv/flag; [ -e /srv/flag ] && echo 1 || echo 0"),
        environment_parameters={"working_directory": "/home/user/task"},
    )
    run.devbox.run(
        "sudo setsid sh -c 'while :; do : > /srv/flag; sleep 0.003; rm /srv/flag; sleep 0.003; done'"
        " > /dev/null 2>&1 < /dev/null &"
    )
    for _ in range(12):
        view = run.scored()
        named = "/srv/flag" in [each["path"] for each in view["tamper_report"]["changed_outside"]]
        assert view["scoring_contract_result"]["score"] == named
    run.end()


def test_moving_the_home_hides_nothing(http: httpx.Client) -> None:
    """Without a working directory the home is what is left out of the report: as it was at the start."""
    run = run_of(http, bash("pwd; echo 1"))
    moved = r"sudo sed -i 's|^\(user:.*\):/home/user:|\1:/:|' /etc/passwd; sudo touch /etc/planted"
    assert run.devbox.run(f"{moved}; getent passwd user | cut -d: -f6")["stdout"] == "/\n"
    view = run.scored()
    changed = {each["path"] for each in view["tamper_report"]["changed_outside"]}
    assert {"/etc/planted", "/etc/passwd"} <= changed
    assert results(view)[0]["output"] == "/home/user\n1\n"
    run.end()


def test_moving_the_home_does_not_move_the_answer(http: httpx.Client) -> None:
    run = run_of(
        http,
        bash("out/tool; [ -e ~/out/tool ] && ! [ -e /usr/local/out ] && echo 1 || echo 0"),
        scoring_isolation="answer",
        answer_paths=["out"],
    )
    moved = r"sudo sed -i 's|^\(user:.*\):/home/user:|\1:/usr/local:|' /etc/passwd"
    run.devbox.run(
        f"mkdir ~/out; touch ~/out/tool; sudo mkdir /usr/local/out; sudo touch /usr/local/out/tool; {moved}"
    )
    view = run.scored()
    assert view["scoring_contract_result"]["score"] == 1.0, results(view)
    run.end()


def test_a_link_does_not_make_its_target_a_part_of_the_answer(http: httpx.Client) -> None:
    launch = {"launch_commands": ["mkdir -p ~/out/sub; echo strict > ~/out/sub/rules"]}
    run = run_of(
        http,
        bash("grep -q lax out/sub/rules && echo 1 || echo 0"),
        scoring_isolation="answer",
        answer_paths=["out"],
        answer_excludes=["out/sub/rules"],
        environment_parameters={"launch_parameters": launch},
    )
    run.devbox.run("echo lax > ~/out/sub/rules")
    assert run.scored()["scoring_contract_result"]["score"] == 0.0
    run.devbox.run("cd ~/out && mv sub mine && echo lax > mine/rules && ln -s mine sub")
    view = run.scored()
    assert view["scoring_contract_result"]["score"] == 0.0, results(view)
    assert "could not be restored" in results(view)[0]["reason"]
    run.end()


def test_tests_do_not_stay_in_a_live_devbox(http: httpx.Client) -> None:
    """It can be worked in after its first score, and scored again."""
    files = [{"file_path": f"hidden/test_{number}", "file_contents": "expected"} for number in range(150)]
    look = "test $(cat hidden/* | wc -c) = 1200"
    tests = {"type": "test_based_scorer", "test_command": look, "test_files": files}
    run = run_of(http, tests, scoring_isolation="live")
    assert run.scored()["scoring_contract_result"]["score"] == 1.0
    assert run.devbox.run("find ~/hidden -type f; ls -d /run/benchyard-*")["stdout"] == ""
    run.end()


def test_links_and_setuid_files_among_the_work_are_named(http: httpx.Client) -> None:
    run = run_of(http, command("true"), environment_parameters={"working_directory": "/home/user/task"})
    run.devbox.run(
        "cd ~/task; echo x > plain; ln -s plain link; mkfifo pipe; cp /bin/true suid; chmod 4755 suid"
    )
    found = run.scored()["tamper_report"]["special_inside"]
    assert {(each["path"], each["type"]) for each in found} == {
        ("/home/user/task/link", "link"),
        ("/home/user/task/pipe", "other"),
        ("/home/user/task/suid", "file"),
    }
    assert good(http.get(f"/v1/scenarios/runs/{run.id}"))["tamper_report"]["changed_inside_total"] == 4
    run.end()


@pytest.mark.parametrize("mode", ["clean", "live"])
def test_secrets_of_scorers_are_not_among_what_a_run_shows(http: httpx.Client, mode: str) -> None:
    """Scorers of a live scenario run in the devbox of the run, whose last commands are shown."""
    name, value = f"GRADES_{mode.upper()}", f"of-the-grader-{mode}-0123456789"
    good(http.post("/v1/secrets", json={"name": name, "value": value}))
    run = run_of(http, bash("echo is $KEY; echo 1"), scoring_isolation=mode, scoring_secrets={"KEY": name})
    run.devbox.run("echo done")
    run.scored()
    shown = good(http.get(f"/v1/scenarios/runs/{run.id}/executions"))
    assert "done" in str(shown)
    assert value not in str(shown)
    run.end()
