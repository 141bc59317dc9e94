"""`system`: the work is the agent's, and everything else is as it was at the start."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests.api.devbox import create, good
from tests.api.scenarios import Run, bash, command, function, results, scenario, start
from tests.api.test_scenario_runs import client_of

WORK = "/home/user/task"
CHECK = "python3 -c 'from solution import total; assert total([3, 4]) == 7'"
"""What a grader runs, by names that an agent may have taken."""


@pytest.fixture(scope="module")
def http(server: RunningServer) -> Iterator[httpx.Client]:
    """A client of a server with the native driver."""
    with client_of(server) as client:
        yield client
    assert leaks.find(server.data) == []


def started(http: httpx.Client, scorer: dict[str, Any], **fields: Any) -> Run:
    launch = {"launch_commands": fields.pop("launch", [])}
    environment = {"working_directory": fields.pop("directory", WORK), "launch_parameters": launch}
    rules = {"scoring_isolation": "system", "environment_parameters": environment, **fields}
    return start(http, scenario(http, function(scorer), **rules)["id"])


def score_of(view: dict[str, Any]) -> float:
    score: float = view["scoring_contract_result"]["score"]
    return score


SHIM = "printf '#!/bin/sh\\nexit 0\\n' > /tmp/shim; chmod 755 /tmp/shim"
HOOK = "import os; os._exit(0)"
USER_SITE = "$(python3 -c 'import site; print(site.getusersitepackages())')"
ATTACKS = {
    "a shim that comes first on PATH": f"{SHIM}; sudo cp /tmp/shim /usr/local/bin/python3",
    "a program that is replaced": f"{SHIM}; sudo cp --remove-destination /tmp/shim /usr/bin/python3",
    "a shell that is replaced": f"{SHIM}; sudo cp --remove-destination /tmp/shim $(readlink -f /bin/bash)",
    "a loader that is told to preload": "echo /home/user/task/none.so | sudo tee /etc/ld.so.preload",
    "a module of the system": f"echo '{HOOK}' | sudo tee /usr/lib/python3/dist-packages/sitecustomize.py",
    "a module of the user": f"mkdir -p {USER_SITE}; echo '{HOOK}' > {USER_SITE}/usercustomize.py",
    "a profile": "echo 'exit 0' | sudo tee /etc/profile /etc/bash.bashrc",
    "files of the user's shell": "echo 'exit 0' | tee ~/.profile ~/.bashrc ~/.bash_profile ~/.bash_env",
    "another home": "sudo sed -i 's|:/home/user:|:/tmp/evil:|' /etc/passwd",
    "the folder above the work is a link": "cd /; sudo mv /home/user /home/real; sudo ln -s real /home/user",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_nothing_outside_of_the_work_gets_a_score(http: httpx.Client, attack: str) -> None:
    run = started(http, command(CHECK))
    run.devbox.run(attack)
    view = run.scored()
    assert score_of(view) == 0.0, results(view)
    assert results(view)[0]["state"] == "complete", results(view)
    assert view["tamper_report"]["opened_by_scorers"] in ([], None)
    run.end()


def test_work_counts_in_the_working_directory_and_the_home(http: httpx.Client) -> None:
    run = started(http, bash("cat inside ../beside; cat /srv/elsewhere ~/.hidden; echo 1"))
    run.devbox.run("echo in > inside; echo out > ~/beside; echo x > ~/.hidden; sudo touch /srv/elsewhere")
    run.devbox.run(f"cd {WORK}; echo in > inside")
    view = run.scored()
    (result,) = results(view)
    assert "in\nout\n" in result["output"]
    assert result["output"].count("No such file") == 2
    assert any(line.startswith("/home/user/.hidden: ") for line in view["tamper_report"]["refused"])
    assert view["scoring_contract_result"]["isolation"] == "system"
    assert view["scoring_contract_result"]["isolation_reason"] == "the author chose it"
    run.end()


FAITHFUL = """
cd ~/task && mkdir -p node_modules/.bin node_modules/tool deep/er .git empty
printf '#!/bin/sh\\necho tool\\n' > node_modules/tool/run; chmod 750 node_modules/tool/run
ln -s ../tool/run node_modules/.bin/tool; ln -s /usr/bin/env out; ln -s /no/such/place dangling
python3 -m venv --without-pip venv; echo one > hard; ln hard deep/er/linked
chmod 2770 deep; sudo chown 1234:4321 deep/er; touch -d @1000000000 hard; rm -r given; echo new > kept
cp /bin/true setuid; chmod 4755 setuid; mkfifo pipe
"""
LOOK = """
tool=$(node_modules/.bin/tool); venv/bin/python3 -c 'import sys; print(sys.prefix)'; readlink out dangling
stat -c '%n %a %Y' hard; stat -c '%n %a %u %g' deep deep/er | sed s/1000/own/g; stat -c '%a' setuid
cat kept; ls -A; [ $tool = tool ] && [ hard -ef deep/er/linked ] && ./out true && echo 1 || echo 0
"""


def test_honest_work_is_carried_as_it_is(http: httpx.Client) -> None:
    launch = [f"mkdir -p {WORK}/given; echo old > {WORK}/kept"]
    run = started(http, bash(LOOK), launch=launch)
    assert run.devbox.run(FAITHFUL)["exit_status"] == 0
    view = run.scored()
    (result,) = results(view)
    assert result["score"] == 1.0, result
    lines = result["output"].splitlines()
    assert lines[:3] == [f"{WORK}/venv", "/usr/bin/env", "/no/such/place"]
    assert lines[3] == "hard 644 1000000000"
    assert lines[4].startswith("deep 2770 own")
    assert lines[5] == "deep/er 755 1234 4321"
    assert lines[6:8] == ["755", "new"]
    assert {"empty", ".git", "venv"} <= {*lines}
    assert not {"given", "pipe"} & {*lines}
    refused = view["tamper_report"]["refused"]
    assert {line.partition(": ")[0] for line in refused} >= {f"{WORK}/setuid", f"{WORK}/pipe"}
    run.end()


def test_work_below_a_folder_of_the_system_is_named(http: httpx.Client) -> None:
    run = started(
        http,
        bash("cat out /opt/more/out; ls -d /usr/src/other /usr/local/evil; echo 1"),
        directory="/usr/src/app",
        answer_paths=["/opt/more"],
    )
    run.devbox.run(
        "sudo mkdir -p /opt/more /usr/src/other; sudo touch /usr/local/evil;"
        " echo a > /usr/src/app/out; echo b | sudo tee /opt/more/out"
    )
    (result,) = results(view := run.scored())
    assert "a\nb\n1\n" in result["output"], result
    assert result["output"].count("No such file") == 2
    assert score_of(view) == 1.0
    run.end()


def test_a_link_of_the_start_on_the_way_to_the_work_is_followed(http: httpx.Client) -> None:
    prepared = create(http)
    prepared.run("sudo mkdir -p /srv/real/job; sudo chmod 777 /srv/real/job; sudo ln -s real /srv/link")
    snapshot = good(prepared.post("snapshot_disk"))["id"]
    prepared.post("shutdown")
    environment = {"working_directory": "/srv/link/job", "snapshot_id": snapshot}
    run = started(http, bash("cat out; echo 1"), environment_parameters=environment)
    run.devbox.run("echo done > /srv/link/job/out")
    (result,) = results(run.scored())
    assert result["output"] == "done\n1\n", result
    run.end()


def test_a_run_can_be_scored_again_from_what_it_left(http: httpx.Client) -> None:
    run = started(http, command(CHECK))
    run.devbox.run(f"echo 'total = sum' > {WORK}/solution.py; sudo rm /usr/bin/python3")
    assert score_of(run.scored()) == 1.0
    good(run.post("complete"))
    good(run.post("rescore", {}))
    view = good(run.post("wait_for_state", {"states": ["completed"], "settled": True, "timeout_seconds": 25}))
    assert (score_of(view), view.get("rescoring_failure")) == (1.0, None)
    assert len(good(http.get(f"/v1/scenarios/runs/{run.id}"))["earlier_results"]) == 1


FOUND = {"isolation": "system", "failed": {"answer": "reference got 0 and 0 instead of 1"}}


def test_where_clean_was_chosen_a_score_that_the_work_alone_does_not_get_is_suspect(
    http: httpx.Client,
) -> None:
    """As for public benchmarks, whose official verdict stays."""
    fields = {"scoring_isolation": "clean", "validated_isolation": FOUND}
    forged = started(http, command(CHECK), **fields)
    forged.devbox.run(ATTACKS["a shim that comes first on PATH"])
    view = forged.scored()
    assert score_of(view) == 1.0
    suspicions = view["scoring_contract_result"]["suspicions"]
    assert any("only with what was changed outside of the work: 0 in `system`" in each for each in suspicions)
    forged.end()
    honest = started(http, command(CHECK), **fields)
    honest.devbox.run(f"echo 'total = sum' > {WORK}/solution.py; sudo touch /srv/beside")
    view = honest.scored()
    assert (score_of(view), view["scoring_contract_result"]["suspicions"]) == (1.0, [])
    reason = view["scoring_contract_result"]["isolation_reason"]
    assert reason.startswith("the author chose it; validation: `system` would do; `answer` would not do: ref")
    honest.end()


def test_validated_isolation_applies_until_the_scenario_changes(http: httpx.Client) -> None:
    made = scenario(http, function(command(CHECK)), validated_isolation=FOUND)
    assert (made["validated_isolation"], made.get("scoring_isolation")) == (FOUND, None)
    run = start(http, made["id"])
    run.devbox.run(f"{SHIM}; sudo cp /tmp/shim /usr/local/bin/python3")
    view = run.scored()
    result = view["scoring_contract_result"]
    assert (result["score"], result["isolation"]) == (0.0, "system")
    assert result["isolation_reason"].startswith("validation found it; `answer` would not do: ")
    run.end()

    def changed(**fields: Any) -> dict[str, Any]:
        return good(http.post(f"/v1/scenarios/{made['id']}", json=fields))

    assert changed(name="another name")["validated_isolation"] == FOUND
    assert changed(scoring_isolation="live")["validated_isolation"] == FOUND
    assert changed(scoring_isolation="auto")["validated_isolation"] == FOUND
    contract = {"scoring_function_parameters": [function(command("true"))]}
    assert changed(scoring_contract=contract).get("validated_isolation") is None
