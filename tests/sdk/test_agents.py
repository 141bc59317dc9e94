"""Agents through the official client: registered, listed, mounted; their packages are real ones."""

import io
import tarfile
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from runloop_api_client import (
    BadRequestError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    Runloop,
    RunloopSDK,
)

from tests.sdk.boxes import output, reaches
from tests.sdk.scenes import QUICK, scenario, unique

OBJECT = {"tool.sh": "#!/bin/sh\necho it is $1 in $(pwd)\n", "data/facts.txt": "a fact\n"}


def ids(views: Any) -> list[str]:
    return [view.id for view in views]


def npm(package: str = "semver", **more: Any) -> Any:
    return {"type": "npm", "npm": {"package_name": package, **more}}


def stored(client: Runloop, files: dict[str, str]) -> str:
    """The id of an archive with these files, all programs."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(text.encode()), 0o755
            tar.addfile(info, io.BytesIO(text.encode()))
    made = client.objects.create(name="agent.tgz", content_type="tgz")
    assert made.upload_url is not None
    httpx.put(made.upload_url, content=packed.getvalue()).raise_for_status()
    client.objects.complete(made.id)
    return made.id


@pytest.fixture
def mounted(client: Runloop) -> Iterator[Any]:
    """Makes devboxes that show an agent, and ends them."""
    made: list[str] = []

    def make(**mount: Any) -> str:
        wanted: Any = {"type": "agent_mount", "agent_id": None, "agent_name": None, **mount}
        box = client.devboxes.create_and_await_running(
            mounts=[wanted], polling_config=QUICK, metadata={"benchyard.network": "none"}
        )
        made.append(box.id)
        return box.id

    yield make
    for id in made:
        client.devboxes.shutdown(id)


def test_an_agent_is_made_found_listed_and_deleted(client: Runloop) -> None:
    name = unique("agent")
    made = client.agents.create(name=name, version="1.2.3", source=npm(agent_setup=["echo set up"]))
    assert made.id.startswith("agt_")
    assert (made.name, made.version, made.is_public) == (name, "1.2.3", False)
    found = client.agents.retrieve(made.id)
    assert found == made
    assert found.source is not None
    assert found.source.npm is not None
    assert (found.source.type, found.source.npm.agent_setup) == ("npm", ["echo set up"])
    assert ids(client.agents.list(search=name)) == [made.id]
    client.agents.delete(made.id)
    assert ids(client.agents.list(search=name)) == []
    with pytest.raises(NotFoundError, match=made.id):
        client.agents.retrieve(made.id)
    with pytest.raises(NotFoundError, match=made.id):
        client.agents.delete(made.id)


def test_lists_are_filtered_and_paged(client: Runloop) -> None:
    name = unique("versions")
    made = [client.agents.create(name=name, version=f"1.{index}", source=npm()) for index in range(3)]
    assert ids(client.agents.list(name=name, limit=1)) == list(reversed(ids(made)))
    assert ids(client.agents.list(name=name[:-1])) == list(reversed(ids(made)))
    assert ids(client.agents.list(name=name, version="1.1")) == [made[1].id]
    latest = client.agents.list(name=name, version="latest")
    assert (ids(latest.agents), latest.has_more) == ([made[2].id], False)
    assert ids(client.agents.list(search=made[0].id)) == [made[0].id]
    assert ids(client.agents.list(name=name, search=made[0].id)) == [made[0].id]
    page = client.agents.list(name=name, limit=2)
    assert (len(page.agents), page.has_more, page.total_count) == (2, True, 3)
    assert ids(client.agents.list(name=name, is_public=True)) == []
    for each in made:
        client.agents.delete(each.id)


def test_those_that_come_with_the_server_are_public(client: Runloop) -> None:
    public = {each.name: each for each in client.agents.list_public(limit=100)}
    assert {"nop", "oracle", "command"} <= set(public)
    assert all(each.is_public for each in public.values())
    assert ids(client.agents.list(is_public=True, name="oracle")) == [public["oracle"].id]
    assert "oracle" not in [agent.name for agent in client.agents.list(limit=100)]
    with pytest.raises(PermissionDeniedError, match="cannot be deleted"):
        client.agents.delete(public["nop"].id)
    with pytest.raises(BadRequestError, match="another name"):
        client.agents.create(name="oracle", source=npm())


def test_a_version_never_changes(client: Runloop) -> None:
    name = unique("fixed")
    made = client.agents.create(name=name, version="1", source=npm())
    assert client.agents.create(name=name, version="1", source=npm()).id == made.id
    with pytest.raises(ConflictError, match="never changes"):
        client.agents.create(name=name, version="1", source=npm("left-pad"))
    unversioned = [client.agents.create(name=name, source=npm()).id for _ in range(2)]
    assert len({made.id, *unversioned}) == 3
    for id in (made.id, *unversioned):
        client.agents.delete(id)


def test_the_same_request_twice_makes_one(client: Runloop) -> None:
    once, name = f"once-{uuid.uuid4()}", unique("once")
    made = {client.agents.create(name=name, source=npm(), idempotency_key=once).id for _ in range(3)}
    assert len(made) == 1
    with pytest.raises(BadRequestError, match="another body"):
        client.agents.create(name=unique("other"), source=npm(), idempotency_key=once)
    client.agents.delete(made.pop())


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"name": ""}, "name"),
        ({"name": "two words"}, "name"),
        ({"name": "a:b"}, "name"),
        ({"name": "mine@2"}, "version"),
        ({"version": "latest"}, "latest"),
        ({"version": "1; rm -rf /"}, "version"),
        ({"source": {"type": "svn"}}, "source.type"),
        ({"source": {"type": "npm"}}, "npm"),
        ({"source": {"type": "npm", "pip": {"package_name": "a"}}}, "npm"),
        ({"source": {**npm(), "git": {"repository": "https://a/b"}}}, "no other"),
        ({"source": npm("--global")}, "package_name"),
        ({"source": npm("../up")}, "package_name"),
        ({"source": npm("git+ssh://x/y")}, "package_name"),
        ({"source": npm(registry_url="file:///etc")}, "registry_url"),
        ({"source": {"type": "pip", "pip": {"package_name": "a @ file:///etc"}}}, "package_name"),
        ({"source": {"type": "git", "git": {"repository": "file:///etc"}}}, "repository"),
        ({"source": {"type": "git", "git": {"repository": "ext::sh -c id"}}}, "repository"),
        ({"source": {"type": "git", "git": {"repository": "https://me:pw@a/b"}}}, "password"),
        ({"source": npm(registry_url="https://token@a/b")}, "password"),
        ({"source": {"type": "git", "git": {"repository": "https://a/b", "ref": "-x"}}}, "ref"),
        ({"source": npm(agent_setup=["a\0b"])}, "agent_setup"),
    ],
)
def test_invalid_agent_is_refused(client: Runloop, fields: Any, says: str) -> None:
    before = client.agents.list(limit=1).total_count
    with pytest.raises(BadRequestError, match=says):
        client.agents.create(**{"name": unique("bad"), "source": npm(), **fields})
    assert client.agents.list(limit=1).total_count == before


def test_an_object_must_be_there(client: Runloop) -> None:
    with pytest.raises(NotFoundError, match="obj_none"):
        client.agents.create(
            name=unique("none"), source={"type": "object", "object": {"object_id": "obj_none"}}
        )


def test_a_package_of_npm_is_in_path(client: Runloop, mounted: Any) -> None:
    made = client.agents.create(name=unique("npm"), version="7.6.3", source=npm())
    box = mounted(agent_id=made.id)
    assert output(client, box, "semver 1.2.3 -i minor") == "1.3.0\n"
    assert output(client, box, f"cat /opt/benchyard/agents/{made.id}/lib/node_modules/semver/package.json")
    assert "denied" in output(client, box, f"touch /opt/benchyard/agents/{made.id}/x 2>&1 || echo denied")
    assert client.agents.devbox_counts().counts[made.name] == 1
    assert client.agents.devbox_counts().total_count >= 1
    client.agents.delete(made.id)
    assert output(client, box, "semver 2.0.0") == "2.0.0\n"


def test_a_package_of_pip_is_in_path(client: Runloop, mounted: Any) -> None:
    source: Any = {"type": "pip", "pip": {"package_name": "tabulate", "agent_setup": ["tabulate --help"]}}
    name = unique("pip")
    client.agents.create(name=name, version="0.8.10", source=source)
    made = client.agents.create(name=name, version="0.9.0", source=source)
    box = mounted(agent_name=name)
    shown = output(client, box, "printf 'a b\\n' | tabulate -f plain")
    assert shown.split() == ["a", "b"]
    found = output(client, box, f"ls /opt/benchyard/agents/{made.id}/lib/python3*/site-packages")
    assert "tabulate-0.9.0.dist-info" in found, "the newest of the name"


def test_a_repository_is_shown_where_it_is_wanted(client: Runloop, mounted: Any, forge: str) -> None:
    source: Any = {"type": "git", "git": {"repository": f"{forge}/owner/repo.git"}}
    setup: Any = {"agent_setup": ["cat file > copied", "mkdir bin"]}
    at_tag: Any = {**source, "git": {**source["git"], "ref": "v1", **setup}}
    for fields, text in (({"source": source}, "two"), ({"source": at_tag}, "one")):
        made = client.agents.create(name=unique("git"), **fields)
        box = mounted(agent_id=made.id, agent_path="/home/user/agent", auth_token="not needed")
        assert output(client, box, "cat ~/agent/file") == f"{text}\n"
        assert output(client, box, f"ls /opt/benchyard/agents/{made.id}").split()[-1] == "file"
    assert output(client, box, "cat ~/agent/copied") == "one\n"
    versioned = client.agents.create(name=unique("git"), version="1", source=source)
    box = mounted(agent_id=versioned.id, agent_path="/srv/agent")
    assert output(client, box, "cat /srv/agent/file") == "one\n", "a tag of the version's name"
    with pytest.raises(BadRequestError, match="agent_path"):
        mounted(agent_id=made.id)


def test_an_object_is_unpacked_and_set_up(client: Runloop, mounted: Any) -> None:
    object_id = stored(client, OBJECT)
    part: Any = {"object_id": object_id, "agent_setup": ["./tool.sh done > result", "ln -s /etc/shadow out"]}
    made = client.agents.create(name=unique("object"), source={"type": "object", "object": part})
    box = mounted(agent_id=made.id, agent_path="/srv/agent")
    assert output(client, box, "cat /srv/agent/result") == f"it is done in /opt/benchyard/agents/{made.id}\n"
    assert output(client, box, "cat /srv/agent/data/facts.txt") == "a fact\n"
    assert output(client, box, "cd /srv/agent && ./tool.sh mine") == "it is mine in /srv/agent\n"
    client.devboxes.suspend(box)
    client.devboxes.await_suspended(box)
    client.agents.delete(made.id)
    client.devboxes.resume(box)
    client.devboxes.await_running(box)
    assert output(client, box, "cat /srv/agent/data/facts.txt") == "a fact\n"


@pytest.mark.parametrize("path", ["agent", "~/agent", "/srv/../etc", "/srv//x", "/srv/", "/a\0b"])
def test_an_invalid_place_is_refused(client: Runloop, mounted: Any, path: str) -> None:
    made = client.agents.create(name=unique("place"), source=npm())
    with pytest.raises(BadRequestError, match="agent_path"):
        mounted(agent_id=made.id, agent_path=path)


def test_failed_install_says_why(client: Runloop) -> None:
    cases: dict[str, Any] = {
        "no-such-package": npm("benchyard-has-no-such-package"),
        "it broke": npm(agent_setup=["echo it broke; exit 3"]),
    }
    for says, source in cases.items():
        made = client.agents.create(name=unique("broken"), source=source)
        mount: Any = {"type": "agent_mount", "agent_id": made.id, "agent_name": None}
        box = reaches(client, client.devboxes.create(mounts=[mount]).id, "failure")
        assert (box.status, box.failure_reason) == ("failure", "execution_failed")
        detail = str(box.state_transitions[-1])
        assert "could not be installed" in detail
        assert says in detail


def test_a_run_shows_the_agents_of_its_profile(client: Runloop) -> None:
    made = client.agents.create(
        name=unique("run"),
        source={"type": "object", "object": {"object_id": stored(client, OBJECT)}},
    )
    mount: Any = {
        "type": "agent_mount",
        "agent_id": made.id,
        "agent_name": None,
        "agent_path": "/srv/agent",
        "auth_token": "never kept as it is",
    }
    run = client.scenarios.start_run_and_await_env_ready(
        scenario_id=scenario(client).id, run_profile={"mounts": [mount]}, polling_config=QUICK
    )
    assert output(client, run.devbox_id, "cat /srv/agent/data/facts.txt") == "a fact\n"
    client.scenarios.runs.cancel(run.id)


def test_agents_are_objects_too(sdk: RunloopSDK, forge: str) -> None:
    name = unique("oo")
    made = [
        sdk.agent.create_from_npm(name=name, version="1", package_name="semver"),
        sdk.agent.create_from_pip(name=name, version="2", package_name="tabulate"),
        sdk.agent.create_from_git(name=name, version="3", repository=f"{forge}/owner/repo.git", ref="v1"),
    ]
    assert [each.id for each in sdk.agent.list(name=name)] == [each.id for each in reversed(made)]
    assert sdk.agent.from_id(made[1].id).get_info().version == "2"
    assert "oracle" in [each.get_info().name for each in sdk.agent.list_public()]
    assert sdk.agent.devbox_counts().total_count >= 0
    for each in made:
        each.delete()
    assert sdk.agent.list(name=name) == []
