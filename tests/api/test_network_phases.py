"""What set-up, an agent and scorers may reach: each enforced by itself, and told with the trial."""

import http.server
import json
import threading
from collections.abc import Iterator

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.api.devbox import eventually, good, refusal
from tests.api.jobs import Job, agent, scenarios_spec
from tests.api.scenarios import bash, function, scenario, start

_ASK = """python3 - {port} <<'END' > {file}
import http.client, sys
way = http.client.HTTPConnection("127.0.0.1", 3128, timeout=30)
way.request("GET", "http://127.0.0.1:" + sys.argv[1] + "/")
print(way.getresponse().status)
END
"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: pytest shows what matters."""


@pytest.fixture
def port() -> Iterator[int]:
    """Of a web server on this machine."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Quiet) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield served.server_address[1]
        served.shutdown()
        thread.join()


@pytest.fixture
def api(server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


def policy(api: httpx.Client, name: str, **allowed: object) -> str:
    return str(good(api.post("/v1/network-policies", json={"name": name, **allowed}))["id"])


def to_loopback(port: int) -> dict[str, object]:
    return {"allowed_cidrs": [{"cidr": "127.0.0.1/32", "ports": [{"port": port}]}]}


def made(api: httpx.Client, port: int, setup: str, agents: str) -> str:
    launch = {
        "network_policy_id": setup,
        "launch_commands": [_ASK.format(port=port, file="/home/user/setup.txt")],
    }
    scorer = bash('echo "$(cat /home/user/setup.txt) $(cat /home/user/agent.txt)" >&2; echo 1')
    found = scenario(
        api,
        function(scorer),
        environment_parameters={"launch_parameters": launch},
        agent_network_policy=agents,
    )
    return str(found["id"])


def reached(job: Job) -> tuple[str, str]:
    """What setup and agent were answered, and what the trial says of its network."""
    row = job.row()
    run = good(job.api.get(f"/v1/scenarios/runs/{row['scenario_run_id']}"))
    (result,) = run["scoring_contract_result"]["scoring_function_results"]
    (trial,) = job.trials()
    words = json.dumps(result["output"]).replace("\\n", " ").replace('"', "").split()
    return " ".join(words[:2]), trial["network"]


def test_setup_network_is_closed_to_the_agent(api: httpx.Client, port: int) -> None:
    setup, closed = policy(api, "phases-setup", **to_loopback(port)), policy(api, "phases-closed")
    work = agent(_ASK.format(port=port, file="/home/user/agent.txt"))
    job = Job(api, scenarios_spec([made(api, port, setup, closed)], work))
    assert reached(job) == ("200 403", "none")


def test_agent_network_is_closed_to_setup(api: httpx.Client, port: int) -> None:
    closed = policy(api, "phases-shut")
    policy(api, "phases-agent", **to_loopback(port))
    work = agent(_ASK.format(port=port, file="/home/user/agent.txt"))
    job = Job(api, scenarios_spec([made(api, port, closed, "phases-agent")], work))
    assert reached(job) == ("403 200", "allow-list")


def test_a_policy_that_is_none_is_named(api: httpx.Client) -> None:
    id = str(scenario(api, function(bash("echo 1")), agent_network_policy="nobody's")["id"])
    told = refusal(api.post("/v1/scenarios/start_run", json={"scenario_id": id}), 400)
    assert "nobody's" in str(told)


_SCORER = """
python3 - {port} <<'END' >&2 || echo "no way" >&2
import http.client, sys
way = http.client.HTTPConnection("127.0.0.1", 3128, timeout=30)
way.request("GET", "http://127.0.0.1:" + sys.argv[1] + "/")
print(way.getresponse().status)
END
echo "proxy: $http_proxy" >&2
echo 1
"""


def said(view: dict[str, object]) -> tuple[list[str], object]:
    """What a scorer said of the web server and of its proxy, and what the result says of its network."""
    result = view["scoring_contract_result"]
    assert isinstance(result, dict)
    lines = str(result["scoring_function_results"][0]["output"]).splitlines()
    told = [line for line in lines if line in ("200", "403", "no way") or line.startswith("proxy:")]
    return told, result["network"]


_PROXIED = "proxy: http://127.0.0.1:3128"


def test_scorers_reach_what_their_policy_lists_and_the_agent_does_not(api: httpx.Client, port: int) -> None:
    policy(api, "scorers-list", **to_loopback(port))
    id = str(scenario(api, function(bash(_SCORER.format(port=port))), scoring_network="scorers-list")["id"])
    job = Job(api, scenarios_spec([id], agent(_ASK.format(port=port, file="/dev/null") + "exit 0")))
    run = good(api.get(f"/v1/scenarios/runs/{job.row()['scenario_run_id']}"))
    assert said(run) == (["200", _PROXIED], "allow-list")
    (trial,) = job.trials()
    assert (trial["network"], trial["scoring_network"]) == ("none", "allow-list")


def test_scorers_do_not_have_what_the_agent_reaches(api: httpx.Client, port: int) -> None:
    listed = policy(api, "scorers-not", **to_loopback(port))
    launch = {"network_policy_id": listed}
    id = str(
        scenario(
            api,
            function(bash(_SCORER.format(port=port))),
            environment_parameters={"launch_parameters": launch},
        )["id"]
    )
    run = start(api, id)
    assert said(run.scored()) == (["no way", "proxy: "], "none")
    run.end()


def test_refused_connections_are_reported_with_the_result(api: httpx.Client, port: int) -> None:
    listed = policy(api, "refusing", allowed_hostnames=["nowhere.example"])
    scorer = _SCORER.format(port=port).replace("echo 1\n", "echo 0\n")
    launch = {"network_policy_id": listed}
    id = str(
        scenario(
            api,
            function(bash(scorer)),
            environment_parameters={"launch_parameters": launch},
            scoring_network="refusing",
        )["id"]
    )
    asked_twice = 2 * _ASK.format(port=port, file="/dev/null")
    job = Job(api, scenarios_spec([id], agent(asked_twice + "exit 0")))
    run = good(api.get(f"/v1/scenarios/runs/{job.row()['scenario_run_id']}"))
    host = f"127.0.0.1:{port}"
    lines = [
        f"the egress proxy refused {host} 2 times while it was worked on",
        f"the egress proxy refused {host} once while it was scored",
    ]
    assert [line for line in run["scoring_contract_result"]["conditions"] if "egress" in line] == lines
    assert [line for line in job.row()["attempts"][0]["conditions"] if "egress" in line] == lines
    (trial,) = job.trials()
    assert [line for line in trial["conditions"] if "egress" in line] == lines


def test_a_live_devbox_has_the_policy_of_its_scorers_while_they_work(api: httpx.Client, port: int) -> None:
    policy(api, "live-list", **to_loopback(port))
    id = str(
        scenario(
            api,
            function(bash(_SCORER.format(port=port))),
            scoring_isolation="live",
            scoring_network="live-list",
        )["id"]
    )
    run = start(api, id)
    ask = _ASK.format(port=port, file="/home/user/got") + "cat /home/user/got"
    assert run.devbox.run(ask)["stdout"].split() == ["403"]
    assert said(run.scored()) == (["200", _PROXIED], "allow-list")
    assert run.devbox.run(ask)["stdout"].split() == ["403"]
    run.end()


def test_a_policy_of_scorers_that_is_none_is_named(api: httpx.Client) -> None:
    id = str(scenario(api, function(bash("echo 1")), scoring_network="nobody's")["id"])
    told = refusal(api.post("/v1/scenarios/start_run", json={"scenario_id": id}), 400)
    assert "nobody's" in str(told)
    told = refusal(api.post("/v1/benchmark_jobs", json={"spec": scenarios_spec([id], agent("true"))}), 400)
    assert "nobody's" in str(told)


def test_a_policy_that_is_gone_leaves_what_is_scored(api: httpx.Client) -> None:
    gone = policy(api, "scorers-gone")
    id = str(scenario(api, function(bash("echo 1")), scoring_network=gone)["id"])
    run = start(api, id)
    good(api.post(f"/v1/network-policies/{gone}/delete"))
    view = run.scored()
    (result,) = view["scoring_contract_result"]["scoring_function_results"]
    assert result["state"] == "error"
    assert gone in result["reason"]
    good(run.post("complete"))
    good(api.post(f"/v1/scenarios/{id}", json={"scoring_network": "none"}))
    good(run.post("rescore", {"newest": True}))
    eventually(lambda: run.view()["scoring_contract_result"]["score"] == 1, "it is scored again")


def test_a_policy_without_the_gateway_gives_no_door_to_it(api: httpx.Client) -> None:
    closed = policy(api, "no-gateway")
    launch = {"network_policy_id": closed}
    id = str(
        scenario(api, function(bash("echo 1")), environment_parameters={"launch_parameters": launch})["id"]
    )
    good(api.post("/v1/secrets", json={"name": "NO_GATEWAY_KEY", "value": "sk-nothing-to-see"}))
    model = {
        "name": "codex",
        "model_name": "gpt-5.5",
        "agent_environment": {"secrets": {"OPENAI_API_KEY": "NO_GATEWAY_KEY"}},
    }
    told = str(refusal(api.post("/v1/benchmark_jobs", json={"spec": scenarios_spec([id], model)}), 400))
    assert "network-policy update no-gateway --allow-gateway" in told
    run = start(api, id)
    asked = {"model": "gpt-5.5", "secret": "NO_GATEWAY_KEY"}
    told = str(refusal(api.post(f"/v1/scenarios/runs/{run.id}/open_gateway", json=asked), 400))
    assert "--allow-gateway" in told
    run.end()
