"""What a devbox may reach while it is prepared, and what its agent may: enforced, and told with the trial."""

import http.server
import json
import threading
from collections.abc import Iterator

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.api.devbox import good, refusal
from tests.api.jobs import Job, agent, scenarios_spec
from tests.api.scenarios import bash, function, scenario

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


def test_what_setup_reaches_its_agent_does_not(api: httpx.Client, port: int) -> None:
    setup, closed = policy(api, "phases-setup", **to_loopback(port)), policy(api, "phases-closed")
    work = agent(_ASK.format(port=port, file="/home/user/agent.txt"))
    job = Job(api, scenarios_spec([made(api, port, setup, closed)], work))
    assert reached(job) == ("200 403", "none")


def test_what_an_agent_reaches_setup_does_not(api: httpx.Client, port: int) -> None:
    closed = policy(api, "phases-shut")
    policy(api, "phases-agent", **to_loopback(port))
    work = agent(_ASK.format(port=port, file="/home/user/agent.txt"))
    job = Job(api, scenarios_spec([made(api, port, closed, "phases-agent")], work))
    assert reached(job) == ("403 200", "allow-list")


def test_a_policy_that_is_none_is_named(api: httpx.Client) -> None:
    id = str(scenario(api, function(bash("echo 1")), agent_network_policy="nobody's")["id"])
    told = refusal(api.post("/v1/scenarios/start_run", json={"scenario_id": id}), 400)
    assert "nobody's" in str(told)
