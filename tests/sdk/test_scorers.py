"""Custom scorers through the official client, and all six types in one contract."""

import json
import uuid
from typing import Any

import httpx
import pytest
from runloop_api_client import BadRequestError, NotFoundError, Runloop, RunloopSDK

from tests.sdk.boxes import output
from tests.sdk.scenes import contract, function, points, scenario, scored, started, unique

LENGTH = """
file=$(python3 -c 'import json, os; print(json.loads(os.environ["RL_SCORER_CONTEXT"])["file_path"])')
wanted=$(python3 -c 'import json, os; print(json.loads(os.environ["RL_TEST_CONTEXT"])["expected_length"])')
[ "$(wc -c < "$file")" = "$wanted" ] && echo score=1.0 || echo score=0.25
"""


def ids(views: Any) -> list[str]:
    return [view.id for view in views]


def validate(client: Runloop, id: str, body: Any) -> Any:
    """The official client of today has no verb for it, but its documentation tells of it."""
    url = f"{str(client.base_url).rstrip('/')}/v1/scenarios/scorers/{id}/validate"
    return httpx.post(url, json=body, headers={"authorization": f"Bearer {client.bearer_token}"}, timeout=120)


def test_a_scorer_is_made_found_changed_and_listed(client: Runloop) -> None:
    type = unique("length")
    made = client.scenarios.scorers.create(type=type, bash_script=LENGTH)
    assert made.id.startswith("scs_")
    assert (made.type, made.bash_script) == (type, LENGTH)
    found = client.scenarios.scorers.retrieve(made.id)
    assert (found.id, found.type, found.bash_script) == (made.id, type, LENGTH)
    changed = client.scenarios.scorers.update(made.id, type=f"{type}-2", bash_script="echo 0.5")
    assert (changed.id, changed.type, changed.bash_script) == (made.id, f"{type}-2", "echo 0.5")
    assert ids(client.scenarios.scorers.list(search=type)) == [made.id]
    assert made.id in ids(client.scenarios.scorers.list(limit=2))


def test_lists_are_paged(client: Runloop) -> None:
    mark = unique("paged")
    made = [
        client.scenarios.scorers.create(type=f"{mark}-{index}", bash_script="echo 1") for index in range(3)
    ]
    assert ids(client.scenarios.scorers.list(search=mark, limit=1)) == list(reversed(ids(made)))
    page = client.scenarios.scorers.list(search=mark, limit=2)
    assert (len(page.scorers), page.has_more, page.total_count) == (2, True, 3)


def test_a_type_is_taken_once(client: Runloop) -> None:
    type = unique("taken")
    made = client.scenarios.scorers.create(type=type, bash_script="echo 1")
    with pytest.raises(BadRequestError, match="is there already"):
        client.scenarios.scorers.create(type=type, bash_script="echo 0")
    other = client.scenarios.scorers.create(type=unique("other"), bash_script="echo 1")
    with pytest.raises(BadRequestError, match="is there already"):
        client.scenarios.scorers.update(other.id, type=type, bash_script="echo 0")
    assert client.scenarios.scorers.retrieve(made.id).bash_script == "echo 1"
    assert client.scenarios.scorers.retrieve(other.id).type == other.type


@pytest.mark.parametrize(
    ("type", "script"), [("", "echo 1"), ("two\nlines", "echo 1"), ("../up", "x" * 2 * 1024**2)]
)
def test_invalid_scorer_is_refused(client: Runloop, type: str, script: str) -> None:
    before = client.scenarios.scorers.list(limit=1).total_count
    with pytest.raises(BadRequestError, match=r"type|bash_script"):
        client.scenarios.scorers.create(type=type, bash_script=script)
    assert client.scenarios.scorers.list(limit=1).total_count == before


def test_unknown_ids_are_not_found(client: Runloop) -> None:
    with pytest.raises(NotFoundError, match="scs_none"):
        client.scenarios.scorers.retrieve("scs_none")
    with pytest.raises(NotFoundError, match="scs_none"):
        client.scenarios.scorers.update("scs_none", type="t", bash_script="echo 1")
    assert validate(client, "scs_none", {"scoring_context": {}}).status_code == 404


def test_the_same_request_twice_makes_one(client: Runloop) -> None:
    once, type = f"once-{uuid.uuid4()}", unique("once")
    made = {
        client.scenarios.scorers.create(type=type, bash_script="echo 1", idempotency_key=once).id
        for _ in range(3)
    }
    assert len(made) == 1
    with pytest.raises(BadRequestError, match="another body"):
        client.scenarios.scorers.create(type=unique("other"), bash_script="echo 1", idempotency_key=once)


def test_a_scenario_is_graded_by_a_custom_scorer_with_its_parameters(client: Runloop) -> None:
    made = client.scenarios.scorers.create(type=unique("length"), bash_script=LENGTH)
    params = {"expected_length": 4, "file_path": "/srv/answer"}
    graded = scenario(
        client,
        scoring_contract=contract(
            function("len", type="custom_scorer", custom_scorer_type=made.type, scorer_params=params)
        ),
    )
    run = started(client, graded.id)
    output(client, run.devbox_id, "sudo install -m 666 /dev/null /srv/answer; printf abc > /srv/answer")
    assert points(scored(client, run.id)) == 0.25
    output(client, run.devbox_id, "printf abcd > /srv/answer")
    assert points(scored(client, run.id)) == 1.0
    client.scenarios.scorers.update(made.id, type=made.type, bash_script="echo 0.5")
    assert points(scored(client, run.id)) == 0.5
    client.scenarios.runs.complete(run.id)


def test_a_scorer_is_tried_in_a_devbox_of_its_own(client: Runloop) -> None:
    made = client.scenarios.scorers.create(type=unique("length"), bash_script=LENGTH)
    context = {"expected_length": 3, "file_path": "/etc/hostname"}
    answer = validate(client, made.id, {"scoring_context": context}).json()
    assert (answer["name"], answer["scoring_context"]) == (made.type, context)
    assert answer["scoring_result"]["state"] == "complete"
    assert answer["scoring_result"]["score"] in (0.25, 1.0)
    placed = validate(
        client,
        made.id,
        {
            "scoring_context": {"expected_length": 6, "file_path": "made"},
            "environment_parameters": {
                "working_directory": "/srv/trial",
                "launch_parameters": {
                    "launch_commands": ["sudo sh -c 'mkdir -p /srv/trial; printf 123456 > /srv/trial/made'"]
                },
            },
        },
    ).json()
    assert placed["scoring_result"]["score"] == 1.0, json.dumps(placed)
    broken = client.scenarios.scorers.create(type=unique("broken"), bash_script="echo nothing; exit 1")
    failed = validate(client, broken.id, {"scoring_context": {}}).json()["scoring_result"]
    assert (failed["state"], failed["score"]) == ("error", 0.0)
    assert "nothing" in failed["output"]
    wrong = validate(
        client,
        made.id,
        {"scoring_context": {}, "environment_parameters": {"blueprint_id": "bpt_none"}},
    )
    assert (wrong.status_code, "bpt_none" in wrong.text) == (400, True)
    climbing = {"scoring_context": {}, "environment_parameters": {"working_directory": "/srv/../etc"}}
    assert validate(client, made.id, climbing).status_code == 400
    left = client.devboxes.list(status="running", limit=5000)
    assert [each.id for each in left if each.initiator_type == "scoring_validation"] == []


def test_all_six_types_grade_one_run(client: Runloop) -> None:
    custom = client.scenarios.scorers.create(type=unique("six"), bash_script="echo 0.5")
    six: list[dict[str, Any]] = [
        {"type": "command_scorer", "command": "python3 calc.py | grep -qx 5"},
        {"type": "bash_script_scorer", "bash_script": "echo some words; echo score=0.5"},
        {
            "type": "test_based_scorer",
            "test_command": "python3 test_calc.py",
            "test_files": [
                {"file_path": "test_calc.py", "file_contents": "import calc\nassert calc.add(1, 2) == 3\n"}
            ],
        },
        {"type": "python_script_scorer", "python_script": "print(open('calc.py').read().count('def') / 2)"},
        {
            "type": "ast_grep_scorer",
            "pattern": "def add($A, $B): $$$",
            "search_directory": ".",
            "lang": "python",
        },
        {"type": "custom_scorer", "custom_scorer_type": custom.type},
    ]
    functions = [function(each["type"].removesuffix("_scorer"), 1 / 6, **each) for each in six]
    graded = scenario(
        client,
        environment_parameters={"working_directory": "/srv/six"},
        scoring_contract=contract(*functions),
    )
    run = started(client, graded.id)
    program = "def add(a, b):\n    return a + b\n\nif __name__ == '__main__':\n    print(add(2, 3))\n"
    client.devboxes.write_file_contents(run.devbox_id, file_path="/srv/six/calc.py", contents=program)
    result = scored(client, run.id).scoring_contract_result
    assert result is not None
    assert [
        (function_result.state, function_result.score) for function_result in result.scoring_function_results
    ] == [("complete", score) for score in (1.0, 0.5, 1.0, 0.5, 1.0, 0.5)], result
    assert result.score == pytest.approx(0.75)
    client.scenarios.runs.complete(run.id)


def test_scorers_are_objects_too(sdk: RunloopSDK) -> None:
    type = unique("object")
    made = sdk.scorer.create(type=type, bash_script="echo 1.0")
    assert sdk.scorer.from_id(made.id).get_info().type == type
    assert made.update(type=type, bash_script="echo 0.1").bash_script == "echo 0.1"
    assert made.id in [each.id for each in sdk.scorer.list(search=type)]
