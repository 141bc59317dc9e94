"""`benchyard scenario` against a real server."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchyard.client import Client, Server
from benchyard.models.blueprints import BlueprintRequest
from benchyard.testing.server import RunningServer
from tests.cli.conftest import CommandLine


@pytest.fixture
def benchyard(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> CommandLine:
    """The command line of the server with the native driver, in a folder of its own."""
    monkeypatch.setenv("BENCHYARD_URL", server.url)
    monkeypatch.setenv("BENCHYARD_API_KEY", server.key)
    monkeypatch.chdir(tmp_path)
    return CommandLine(monkeypatch, capfd)


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    """A client of the same server."""
    with Client(Server(server.url, server.key)) as opened:
        yield opened


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"task-{secrets.token_hex(4)}"


def changed(folder: Path, **fields: Any) -> None:
    """Change what a scenario's file says; None takes a key away."""
    file = folder / "scenario.yaml"
    data = {**yaml.safe_load(file.read_text()), **fields}
    file.write_text(yaml.safe_dump({key: value for key, value in data.items() if value is not None}))


def pushed(benchyard: CommandLine, folder: str, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(benchyard.ok("scenario", "push", folder, *options, "-o", "json"))
    return found


def test_a_new_scenario_is_pushed_changed_pulled_and_archived(
    benchyard: CommandLine, client: Client, name: str
) -> None:
    assert f"benchyard scenario validate {name}" in benchyard.ok("scenario", "new", name)
    would = benchyard.ok("scenario", "push", name, "--dry-run")
    assert would == f"(new)  {name}: would be created (revision 1)\n"
    assert client.scenarios.list(name=name).items == []
    first = pushed(benchyard, name)
    assert (first["action"], first["revision"], first["name"]) == ("created", 1, name)
    again = benchyard.ok("scenario", "push", name)
    assert again == f"{first['id']}  {name}: unchanged, nothing to do\n"

    changed(Path(name), isolation="answer", answer_paths=["greet.py"], metadata={"kind": "test"})
    Path(name, "problem.md").write_text("Something else.\n")
    said = benchyard.ok("scenario", "push", name, "--dry-run")
    assert client.scenarios.retrieve(first["id"]).revision == 1
    assert "  scoring_isolation: auto -> answer\n" in said
    assert "  metadata.kind: nothing -> test\n" in said
    assert "-> Something else." in said
    second = pushed(benchyard, name)
    assert (second["id"], second["revision"], second["action"]) == (first["id"], 2, "changed")
    assert {each["field"] for each in second["changes"]} == {
        "scoring_isolation",
        "answer_paths",
        "metadata.kind",
        "input_context.problem_statement",
    }
    changed(Path(name), isolation=None, answer_paths=None, metadata=None)
    assert pushed(benchyard, name)["revision"] == 3
    view = client.scenarios.retrieve(first["id"])
    assert (view.scoring_isolation, view.answer_paths or None, view.metadata) == ("auto", None, {})

    benchyard.ok("scenario", "pull", name, "copy")
    assert pushed(benchyard, "copy")["action"] == "unchanged"
    assert f"{first['id']}  archived" in benchyard.ok("scenario", "archive", name)
    assert benchyard("scenario", "show", name).status == 4
    assert pushed(benchyard, name)["id"] != first["id"]


@pytest.mark.parametrize("scenario", ["fix-a-bug", "extract-a-function", "merge-the-lists", "undo-a-change"])
def test_scenario_survives_pull_and_push(
    benchyard: CommandLine, client: Client, name: str, scenario: str
) -> None:
    benchyard.ok("scenario", "pull", f"quickstart/{scenario}", "one")
    changed(Path("one"), name=name)
    made = pushed(benchyard, "one")
    benchyard.ok("scenario", "pull", made["id"], "two")
    assert pushed(benchyard, "two")["action"] == "unchanged"
    benchyard.ok("scenario", "pull", name, "two", "--force")
    (public,) = client.scenarios.list_public(name=f"quickstart/{scenario}").items
    own = client.scenarios.retrieve(made["id"])
    kept = {"id", "name", "create_time_ms", "is_public", "revision"}
    assert own.model_dump(exclude=kept) == public.model_dump(exclude=kept)


def test_lists_and_views_are_for_people_and_programs(benchyard: CommandLine, name: str) -> None:
    benchyard.ok("scenario", "new", name)
    made = pushed(benchyard, name)
    assert name in benchyard.ok("scenario", "list")
    assert "quickstart/fix-a-bug" not in benchyard.ok("scenario", "list")
    listed = json.loads(benchyard.ok("scenario", "list", "--search", name, "-o", "json"))
    assert [each["id"] for each in listed] == [made["id"]]
    public = benchyard.ok("scenario", "list", "--public", "--search", "serve")
    assert "quickstart/serve-a-page" in public
    assert "live" in public
    shown = benchyard.ok("scenario", "show", "quickstart/fix-a-bug")
    assert "tests (test_based, 1)" in shown
    assert "`days.py` in the working directory" in shown
    assert yaml.safe_load(benchyard.ok("scenario", "show", name, "-o", "yaml"))["id"] == made["id"]
    assert "no scenarios" in benchyard("scenario", "list", "--search", secrets.token_hex(8)).err


def test_a_scenario_begins_with_a_snapshot_of_a_devbox(
    benchyard: CommandLine, client: Client, name: str
) -> None:
    with client.devboxes.open() as box:
        box.run("mkdir -p ~/it && echo prepared > ~/it/hand.txt")
        benchyard.ok("snapshot", "create", box.id, "--name", name)
    said = benchyard.ok("scenario", "from-snapshot", name, "it", "--working-directory", "/home/user/it")
    assert "write problem.md" in said
    changed(
        Path("it"),
        name=name,
        scorers=[
            {
                "name": "check",
                "type": "command_scorer",
                "command": "test -e done.txt && grep -q prepared hand.txt",
            }
        ],
    )
    assert "1 of 1 valid" in benchyard.ok("scenario", "validate", "it/")
    assert pushed(benchyard, "it")["action"] == "created"
    benchyard.ok("scenario", "pull", name, "copy")
    assert pushed(benchyard, "copy")["action"] == "unchanged"
    assert "snapshot" in benchyard.ok("scenario", "show", name)
    assert benchyard("scenario", "from-snapshot", "no-such-snapshot", "other").status == 4


def test_environments_are_named_as_people_name_them(
    benchyard: CommandLine, client: Client, name: str
) -> None:
    blueprint = client.blueprints.create(BlueprintRequest(name=name, system_setup_commands=["true"]))
    client.blueprints.wait(blueprint.id)
    benchyard.ok("scenario", "new", name)
    changed(Path(name), environment={"blueprint": name})
    made = pushed(benchyard, name)
    environment = client.scenarios.retrieve(made["id"]).environment
    assert environment is not None
    assert environment.blueprint_id == blueprint.id
    benchyard.ok("scenario", "pull", name, "copy")
    assert yaml.safe_load(Path("copy/scenario.yaml").read_text())["environment"] == {"blueprint": name}
    assert pushed(benchyard, "copy")["action"] == "unchanged"
    for kind in ("blueprint", "snapshot", "image"):
        changed(Path(name), environment={kind: "no-such-thing"})
        ended = benchyard("scenario", "push", name)
        assert ended.status in (2, 4)
        assert "no-such-thing" in ended.err


def test_a_dockerfile_is_built_once(benchyard: CommandLine, client: Client, name: str) -> None:
    benchyard.ok("scenario", "new", name)
    Path(name, "environment").mkdir()
    Path(name, "environment/Dockerfile").write_text(f"FROM scratch\nLABEL of={name}\nCOPY marker /marker\n")
    Path(name, "environment/marker").write_text("x")
    changed(Path(name), environment={"dockerfile": "environment/Dockerfile"})
    would = pushed(benchyard, name, "--dry-run")
    assert would["action"] == "created"
    ended = benchyard("scenario", "push", name, "-o", "json")
    if ended.status != 0:
        assert "build" in ended.err
        pytest.skip(f"no Dockerfiles can be built here: {ended.err[-300:]}")
    first = client.scenarios.retrieve(json.loads(ended.out)["id"]).environment
    assert first is not None
    again = benchyard("scenario", "push", name, "-o", "json")
    assert json.loads(again.out)["action"] == "unchanged"
    assert "building" not in again.err
    Path(name, "environment/marker").write_text("y")
    second = pushed(benchyard, name)
    assert [each["field"] for each in second["changes"]] == ["environment.blueprint_id"]
    benchyard.ok("scenario", "pull", name, "copy")
    assert pushed(benchyard, "copy")["action"] == "unchanged"


def test_a_folder_is_validated_and_leaves_nothing_behind(
    benchyard: CommandLine, client: Client, name: str
) -> None:
    benchyard.ok("scenario", "new", name)
    ended = benchyard("scenario", "validate", f"./{name}")
    assert ended.status == 0
    assert "1 of 1 valid" in ended.out
    assert f"{name}: reference in system: 1 (" in ended.err
    assert "validation of" not in ended.err + ended.out
    runs = benchyard.ok("run", "list", "--all", "--limit", "100")
    assert f"  validation of {name}  " in runs
    assert "validation of validation of" not in runs
    assert "`system` was written into" in ended.out
    assert yaml.safe_load(Path(name, "scenario.yaml").read_text())["validated_isolation"] == {
        "isolation": "system"
    }
    assert client.scenarios.list(search=name).items == []
    Path(name, "reference.sh").write_text("true\n")
    ended = benchyard("scenario", "validate", name, "-o", "json")
    assert ended.status == 1
    found = json.loads(ended.out)
    assert not found["is_valid"]
    assert "reference got 0 and 0 instead of 1" in found["scenarios"][0]["problems"][0]
    text = benchyard("scenario", "validate", name)
    assert (text.status, "0 of 1 valid" in text.out) == (1, True)
    assert client.scenarios.list(search=name).items == []


def test_validated_isolation_is_stored_with_the_scenario(
    benchyard: CommandLine, client: Client, name: str
) -> None:
    benchyard.ok("scenario", "new", name)
    benchyard.ok("scenario", "push", name)
    assert "nothing was chosen, and it was not validated" in benchyard.ok("scenario", "show", name)
    (view,) = client.scenarios.list(search=name).items
    assert "from now on" not in benchyard.ok("scenario", "validate", view.id, "--no-record")
    assert "it is graded `system` from now on" in benchyard.ok("scenario", "validate", view.id)
    view = client.scenarios.retrieve(view.id)
    assert (view.isolation, view.revision) == ("system", 2)
    assert "system (validation found it)" in benchyard.ok("scenario", "show", name)
    # A folder that says nothing of it leaves it, as long as it is the same scenario.
    assert pushed(benchyard, name)["action"] == "unchanged"
    benchyard.ok("scenario", "pull", name, "copy")
    assert pushed(benchyard, "copy")["action"] == "unchanged"
    changed(Path(name), scorer_timeout_sec=77)
    pushed(benchyard, name)
    assert client.scenarios.retrieve(view.id).isolation == "clean"


def test_a_custom_scorer_comes_with_its_scenario(benchyard: CommandLine, client: Client, name: str) -> None:
    benchyard.ok("scenario", "new", name)
    script = Path(name, "mine.sh")
    script.write_text("grep -q argv greet.py && echo 1 || echo 0\n")
    scorer = {"name": "mine", "type": "custom_scorer", "custom_scorer_type": name, "file": "mine.sh"}
    changed(Path(name), scorers=[scorer])
    assert "registered" in benchyard.ok("scenario", "push", name, "--dry-run")
    assert client.scenarios.scorers.list(search=name).items == []
    assert f"custom scorer {name}: registered" in benchyard.ok("scenario", "push", name)
    assert "1 of 1 valid" in benchyard.ok("scenario", "validate", f"{name}/")
    script.write_text("echo 0.5\n")
    assert "push the folder first" in benchyard("scenario", "validate", f"{name}/").err
    assert "changed, for every scenario" in benchyard.ok("scenario", "push", name)
    (kept,) = client.scenarios.scorers.list(search=name).items
    assert kept.bash_script == "echo 0.5\n"
    assert benchyard.ok("scenario", "push", name).count("\n") == 1


def test_mistake_is_refused_with_its_line_and_nothing_is_made(
    benchyard: CommandLine, client: Client, name: str
) -> None:
    benchyard.ok("scenario", "new", name)
    changed(Path(name), isolaton="live")
    for verb in ("push", "validate"):
        ended = benchyard("scenario", verb, name)
        assert ended.status == 2
        assert f"{name}/scenario.yaml:" in ended.err
        assert "did you mean `isolation`?" in ended.err
    assert client.scenarios.list(search=name).items == []
    assert benchyard("scenario", "new", name).status == 2
    assert benchyard("scenario", "pull", "quickstart/fix-a-bug", name).status == 2
    assert benchyard("scenario", "pull", "no-such-scenario", "x").status == 4
    assert not Path("x").exists()
    assert benchyard("scenario", "push", "no-such-folder").status == 2
    assert benchyard("scenario", "validate", "no-such-scenario").status == 4
    assert benchyard("scenario", "archive", "quickstart/fix-a-bug").status == 3


def test_two_scenarios_of_one_name_are_not_confused(
    benchyard: CommandLine, client: Client, name: str
) -> None:
    benchyard.ok("scenario", "new", name)
    first = pushed(benchyard, name)
    copy = client.scenarios.retrieve(first["id"]).model_dump(exclude={"environment"}, exclude_none=True)
    client.scenarios.create(
        name=name, input_context=copy["input_context"], scoring_contract=copy["scoring_contract"]
    )
    for verb in ("push", "show"):
        ended = benchyard("scenario", verb, name)
        assert ended.status == 2
        assert "several scenarios" in ended.err
    assert benchyard("scenario", "show", first["id"]).status == 0
