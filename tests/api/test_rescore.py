"""What a run left is kept for a while, and can be scored again by a better scorer."""

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchyard import Benchyard
from benchyard.errors import Conflict
from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests.api.devbox import eventually, good
from tests.api.scenarios import Run, bash, command, function, results, scenario, start
from tests.api.test_scenario_runs import client_of, error_of

WORK = "/home/user/task"
IN_WORK = {"environment_parameters": {"working_directory": WORK}}
WRONG = bash("echo 0.25")
RIGHT = bash("pwd; id -un; cat answer; grep -q 42 answer && echo 1 || echo 0")


@pytest.fixture(scope="module")
def http(server: RunningServer) -> Iterator[httpx.Client]:
    """A client of a server with the native driver."""
    with client_of(server) as client:
        yield client
    assert leaks.find(server.data) == []


def images(server: RunningServer, kind: str) -> list[str]:
    """The images of a kind that are on disk."""
    found = []
    for path in (server.data / "images/images").glob("*.json"):
        with contextlib.suppress(FileNotFoundError):
            record = json.loads(path.read_text())
            found += [record["id"]] if record["kind"] == kind else []
    return sorted(found)


def finals(server: RunningServer) -> list[str]:
    """What is kept of runs."""
    return images(server, "final")


def passing(server: RunningServer) -> list[str]:
    """What is there for a scoring only."""
    return images(server, "scoring")


def change(http: httpx.Client, made: dict[str, Any], scorer: dict[str, Any], **fields: Any) -> dict[str, Any]:
    contract = {"scoring_function_parameters": [function(scorer)]}
    return good(http.post(f"/v1/scenarios/{made['id']}", json={"scoring_contract": contract, **fields}))


def completed(http: httpx.Client, made: dict[str, Any], work: str = "echo 42 > answer") -> Run:
    """A run that was worked on, scored and completed."""
    run = start(http, made["id"])
    run.devbox.run(f"cd {WORK}; {work}")
    run.scored()
    good(run.post("complete"))
    return run


def rescored(run: Run, **options: Any) -> dict[str, Any]:
    """The view once it was scored again, which is begun here."""
    assert good(run.post("rescore", **options))["state"] == "completed"
    eventually(lambda: "rescoring" not in run.view(), "the rescoring")
    return run.view()


def test_a_better_scorer_gives_a_new_score_and_the_old_is_kept(
    http: httpx.Client, server: RunningServer
) -> None:
    made = scenario(http, function(WRONG), **IN_WORK)
    run = completed(http, made)
    before = run.view()
    assert before["final_state"]["size_bytes"] > 0
    assert "final_state_gone" not in before
    assert change(http, made, RIGHT)["revision"] == 2
    view = rescored(run)
    assert results(view)[0]["output"] == f"{WORK}\nuser\n42\n1\n"
    result, (earlier,) = view["scoring_contract_result"], view["earlier_results"]
    assert (result["score"], result["scenario_revision"]) == (1.0, 2)
    assert (earlier["score"], earlier["scenario_revision"]) == (0.25, 1)
    assert (view["state"], view["scenario_revision"]) == ("completed", 1)
    # What was done to the devbox is told as it was.
    assert view["tamper_report"] == before["tamper_report"]
    assert view["final_state"] == before["final_state"]
    eventually(lambda: passing(server) == [], "the image of the scoring to go")
    assert f"{run.id}-1-final" not in {each["id"] for each in good(http.get("/v1/images"))["images"]}
    assert "--final-state-days" in error_of(http.post(f"/v1/images/{run.id}-1-final/delete"), 400)


def test_it_can_be_scored_by_the_revision_it_began_with(http: httpx.Client) -> None:
    made = scenario(http, function(WRONG), **IN_WORK)
    run = completed(http, made)
    change(http, made, RIGHT)
    view = rescored(run, body={"newest": False})
    result = view["scoring_contract_result"]
    assert (result["score"], result["scenario_revision"]) == (0.25, 1)
    assert len(view["earlier_results"]) == 1


def test_where_the_work_was_done_stays_as_the_run_had_it(http: httpx.Client) -> None:
    launch = {"user_parameters": {"username": "worker", "uid": 4321}}
    environment = {"working_directory": "/srv/work", "launch_parameters": launch}
    made = scenario(http, function(WRONG), environment_parameters=environment)
    run = start(http, made["id"], runProfile={"envVars": {"MINE": "kept"}})
    run.scored()
    good(run.post("complete"))
    elsewhere = {"environment_parameters": {"working_directory": "/srv/other"}}
    told = {"input_context": {"problem_statement": "Something else."}}
    find = "import json,os; print(json.loads(os.environ['RL_SCORER_CONTEXT'])['benchyard']['{}'])"
    look = f'pwd; id -un; id -u; echo $MINE; python3 -c "{find.format("problem_statement")}"; echo 1'
    change(http, made, bash(look), **elsewhere, **told)
    assert results(rescored(run))[0]["output"] == "/srv/work\nworker\n4321\nkept\nDo it.\n1\n"


def test_the_same_request_is_one_rescoring(http: httpx.Client) -> None:
    made = scenario(http, function(bash("sleep 1; echo 1")), **IN_WORK)
    run = completed(http, made)
    headers = {"x-request-id": "rescore-once"}
    views = [good(run.post("rescore", headers=headers)) for _ in range(2)]
    assert [each["rescoring"]["scenario_revision"] for each in views] == [1, 1]
    good(run.post("rescore"))
    waited = good(run.post("wait_for_state", {"states": ["completed"], "settled": True}))
    assert "rescoring" not in waited
    assert len(waited["earlier_results"]) == 1
    assert "rescoring" not in good(run.post("rescore", headers=headers))
    assert len(run.view()["earlier_results"]) == 1


def test_scoring_again_keeps_the_newest_state_only(http: httpx.Client, server: RunningServer) -> None:
    run = start(http, scenario(http, **IN_WORK)["id"])
    run.scored()
    assert f"{run.id}-1-final" in finals(server)
    run.scored()
    eventually(lambda: f"{run.id}-1-final" not in finals(server), "the older one to go")
    assert f"{run.id}-2-final" in finals(server)
    told = error_of(run.post("rescore"), 409)
    assert "its devbox" in told or "the devbox" in told
    good(run.devbox.post("shutdown"))
    run.reaches("completed")
    assert rescored(run)["scoring_contract_result"]["score"] == 1.0


def test_a_canceled_run_keeps_nothing(http: httpx.Client, server: RunningServer) -> None:
    run = start(http, scenario(http, **IN_WORK)["id"])
    run.scored()
    assert "canceled" in good(run.post("cancel"))["final_state_gone"]
    assert [each for each in finals(server) if each.startswith(run.id)] == []
    assert "canceled" in error_of(run.post("rescore"), 409)


def test_unscored_run_keeps_no_final_state(http: httpx.Client, server: RunningServer) -> None:
    run = start(http, scenario(http, **IN_WORK)["id"])
    assert "running" in error_of(run.post("rescore"), 409)
    good(run.post("complete"))
    assert "never scored" in error_of(run.post("rescore"), 409)
    assert [each for each in finals(server) if each.startswith(run.id)] == []
    assert error_of(http.post("/v1/scenarios/runs/scr_none/rescore"), 404)


def test_live_is_named(http: httpx.Client) -> None:
    live = completed(http, scenario(http, scoring_isolation="live", **IN_WORK))
    assert "live" in live.view()["final_state_gone"]
    assert "live" in error_of(live.post("rescore"), 409)
    made = scenario(http, **IN_WORK)
    clean = completed(http, made)
    change(http, made, RIGHT, scoring_isolation="live")
    assert "`live` in revision 2" in error_of(clean.post("rescore"), 409)
    assert rescored(clean, body={"newest": False})["scoring_contract_result"]["isolation"] == "clean"


class TestAnswer:
    def test_it_goes_onto_what_the_devbox_was_at_first(
        self, http: httpx.Client, server: RunningServer
    ) -> None:
        rules = {"scoring_isolation": "answer", "answer_paths": ["answer"]}
        launch = {"launch_commands": [f"mkdir -p {WORK}; echo given > {WORK}/given"]}
        environment = {"working_directory": WORK, "launch_parameters": launch}
        made = scenario(http, function(WRONG), environment_parameters=environment, **rules)
        run = completed(http, made, "echo forged > given; echo 42 > answer; echo more > other")
        assert {each for each in finals(server) if each.startswith(run.id)} == {
            f"{run.id}-1-final",
            f"{run.id}-1-start",
        }
        change(http, made, bash("cat given answer; ls; echo 1"))
        assert results(rescored(run))[0]["output"] == "given\n42\nanswer\ngiven\n1\n"
        # Other paths may be the answer by now, and the whole disk too.
        change(http, made, bash("ls; echo 1"), answer_paths=["other"])
        assert results(rescored(run))[0]["output"] == "given\nother\n1\n"
        change(http, made, bash("cat given; ls; echo 1"), scoring_isolation="clean")
        assert results(rescored(run))[0]["output"] == "forged\nanswer\ngiven\nother\n1\n"
        assert len(run.view()["earlier_results"]) == 3

    def test_a_run_that_began_otherwise_has_no_start_to_go_onto(self, http: httpx.Client) -> None:
        made = scenario(http, **IN_WORK)
        run = completed(http, made)
        change(http, made, RIGHT, scoring_isolation="answer", answer_paths=["answer"])
        assert "another isolation" in error_of(run.post("rescore"), 409)


def test_a_scorer_that_fails_again_is_an_error_beside_the_old_result(http: httpx.Client) -> None:
    made = scenario(http, function(command("true")), **IN_WORK)
    run = completed(http, made)
    change(http, made, bash("echo nonsense"))
    view = rescored(run)
    assert (results(view)[0]["state"], view["scoring_contract_result"]["score"]) == ("error", 0.0)
    assert [each["score"] for each in view["earlier_results"]] == [1.0]


def test_the_client_waits_for_it(http: httpx.Client, server: RunningServer) -> None:
    made = scenario(http, function(WRONG), **IN_WORK)
    run = completed(http, made)
    change(http, made, bash("sleep 1; cat answer; echo 0.5"))
    with Benchyard(server.url, server.key) as yard:
        view = yard.api.scenarios.runs.rescore_and_await(run.id)
        assert view.scoring_contract_result is not None
        assert view.scoring_contract_result.score == 0.5
        begun = yard.api.scenarios.runs.rescore(run.id, newest=False)
        assert begun.rescoring is not None
        result = yard.api.scenarios.runs.await_scored(run.id).scoring_contract_result
        assert result is not None
        assert result.score == 0.25
        worked = yard.scenario.from_id(made["id"]).run()
        with pytest.raises(Conflict, match="running"):
            worked.rescore()
        worked.score_and_complete()
        assert worked.rescore().earlier_results
        worked.cancel()


def test_too_large_final_state_is_not_kept(tmp_path: Path) -> None:
    with (
        RunningServer(tmp_path / "data", ["--final-state-max-size", "1MiB"]) as server,
        client_of(server) as http,
    ):
        made = scenario(http, **IN_WORK)
        small, large = completed(http, made), completed(http, made, "head -c 2M /dev/urandom > big")
        assert [each.startswith(small.id) for each in finals(server)] == [True]
        assert "too large" in large.view()["final_state_gone"]
        told = error_of(large.post("rescore"), 409)
        assert "too large" in told
        assert "--final-state-max-size" in told
        eventually(lambda: passing(server) == [], "the frozen images to go")
        server.stop()
        assert leaks.find(server.data) == []


def test_a_server_can_keep_none(tmp_path: Path) -> None:
    with (
        RunningServer(tmp_path / "data", ["--final-state-max-size", "0"]) as server,
        client_of(server) as http,
    ):
        run = completed(http, scenario(http, **IN_WORK))
        assert "keeps none" in run.view()["final_state_gone"]
        assert finals(server) == []


def test_expired_final_state_is_removed_whole(tmp_path: Path) -> None:
    data = tmp_path / "data"
    answer = {"scoring_isolation": "answer", "answer_paths": ["answer"]}
    with RunningServer(data) as server, client_of(server) as http:
        ids = [completed(http, scenario(http, **IN_WORK, **rules)).id for rules in ({}, answer)]
        assert len(finals(server)) == 3
        server.restart()
        # Young ones stay.
        eventually(lambda: passing(server) == [], "what a stop left to go")
        assert len(finals(server)) == 3
    with RunningServer(data, ["--final-state-days", "0.000001"]) as server, client_of(server) as http:
        eventually(lambda: finals(server) == [], "the old ones to go")
        for run_id in ids:
            view = good(http.get(f"/v1/scenarios/runs/{run_id}"))
            assert "pruned after" in view["final_state_gone"]
            assert "final_state" not in view
            assert "pruned after" in error_of(http.post(f"/v1/scenarios/runs/{run_id}/rescore"), 409)
    records = {path.stem for path in (data / "images/images").glob("*.json")}
    assert records == {"host"}
    assert leaks.find(data) == []


def test_a_killed_server_goes_on_with_it(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, client_of(server) as http:
        made = scenario(http, function(WRONG), **IN_WORK)
        run, other = completed(http, made), completed(http, made)
        change(http, made, bash("sleep 2; cat answer; echo 0.75"))
        asked = {"x-request-id": "again"}
        good(run.post("rescore", headers=asked))
        eventually(lambda: any((server.data / "host/devboxes").glob(f"{run.id}-2-0-*")), "its room")
        server.kill()
        # The revision that was asked for counts, whatever the scenario is by then.
        server.start()
        assert good(run.post("rescore", headers=asked))["rescoring"]["scenario_revision"] == 2
        change(http, made, WRONG)
        eventually(lambda: "rescoring" not in run.view(), "the rescoring")
        view = run.view()
        assert results(view)[0]["output"] == "42\n0.75\n"
        assert (view["scoring_contract_result"]["scenario_revision"], len(view["earlier_results"])) == (2, 1)
        assert "rescoring" not in other.view()
        assert len(finals(server)) == 2
        eventually(lambda: passing(server) == [], "the image of the scoring to go")
    assert leaks.find(server.data) == []


def test_a_kill_between_leaves_neither_half_a_state_nor_a_lost_one(tmp_path: Path) -> None:
    """The image is made before the record names it, and goes after the record has let go of it."""
    with RunningServer(tmp_path / "data") as server, client_of(server) as http:
        run = completed(http, scenario(http, **IN_WORK))
        (kept,) = finals(server)
        server.kill()
        # As if it had been killed before it noted a scoring that had kept its state already.
        folder = server.data / "images/images"
        record = json.loads((folder / f"{kept}.json").read_text())
        for orphan in (f"{run.id}-2-final", "scr_0000000000000000gone-1-final"):
            (folder / f"{orphan}.json").write_text(json.dumps({**record, "id": orphan, "name": orphan}))
        server.start()
        eventually(lambda: finals(server) == [kept], "what no run names to go")
        assert rescored(run)["scoring_contract_result"]["score"] == 1.0


def test_a_state_whose_image_was_taken_away_is_told(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, client_of(server) as http:
        run = completed(http, scenario(http, **IN_WORK))
        (kept,) = finals(server)
        server.stop()
        (server.data / "images/images" / f"{kept}.json").unlink()
        server.start()
        assert "missing from the image store" in error_of(run.post("rescore"), 409)
        assert "rescoring" not in run.view()


def test_a_run_of_an_older_server_says_so(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, client_of(server) as http:
        run = completed(http, scenario(http, **IN_WORK))
        server.stop()
        with sqlite3.connect(server.data / "benchyard.db") as database:
            (body,) = database.execute("SELECT body FROM scenario_runs").fetchone()
            older = {key: value for key, value in json.loads(body).items() if not key.startswith("final_")}
            database.execute("UPDATE scenario_runs SET body = ?", (json.dumps(older),))
        server.start()
        assert "before this server kept any" in error_of(run.post("rescore"), 409)
        eventually(lambda: finals(server) == [], "what no run names to go")
