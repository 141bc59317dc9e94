"""What test scripts ask for: many ways to write the same, and what is no business of ours."""

import pytest

from benchyard.errors import ScorerFailed
from benchyard.scorers.verifier.script_needs import MOST_SCRIPT_BYTES, ScriptNeeds, needs_of

USUAL = """#!/bin/bash
# canary: apt-get install nothing
apt-get update
apt-get install -y curl gcc=4:12.2.0-3 libc6-dev:amd64
curl -LsSf https://astral.sh/uv/0.9.5/install.sh | sh
source $HOME/.local/bin/env
if [ "$PWD" = "/" ]; then
    echo "Error: no working directory; pip install nothing"
    exit 1
fi
uvx \\
  -p 3.13 \\
  -w pytest==8.4.1 \\
  -w numpy==2.3.2 \\
  --with=setuptools==80.9.0,requests \\
  pytest --ctrf /logs/verifier/ctrf.json /tests/test_outputs.py -rA -p no:cacheprovider
if [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
"""


def test_the_usual_script() -> None:
    wanted = ("pytest==8.4.1", "numpy==2.3.2", "setuptools==80.9.0", "requests")
    assert needs_of(USUAL) == ScriptNeeds("3.13", wanted, ("curl", "gcc", "libc6-dev"))
    assert needs_of(USUAL.replace("\n", "\r\n")) == needs_of(USUAL)


@pytest.mark.parametrize(
    "script",
    [
        "pip install pytest==8.4.1 'requests>=2'",
        "pip3 install --quiet -U pytest==8.4.1 'requests>=2' 2>/dev/null",
        'python3 -m pip install --index-url https://elsewhere.example pytest==8.4.1 "requests>=2" > log 2>&1',
        "/venv/bin/pip install -r x.txt pytest==8.4.1 -t /x 'requests>=2' . ./here git+https://x/y $MORE",
        "if ! PIP_QUIET=1 sudo pip install pytest==8.4.1; then exit 1; fi; pip install 'requests>=2'",
        "bash -c \"pip install pytest==8.4.1 && pip install 'requests>=2'\"",
        "(cd /x && timeout -s KILL 60 pip install pytest==8.4.1 'requests>=2') || true",
        "uv pip install --system pytest==8.4.1 'requests>=2'",
        "uv venv .testing\nsource .testing/bin/activate\nuv pip install pytest==8.4.1 'requests>=2'",
    ],
)
def test_packages_for_a_python_that_is_not_named_are_for_any(script: str) -> None:
    wanted = ("pytest==8.4.1", "requests>=2")
    assert needs_of(script) == ScriptNeeds(None, wanted, (), wanted)


@pytest.mark.parametrize(
    ("script", "needs"),
    [
        ("uvx pytest@8.4.1", ScriptNeeds(None, ("pytest==8.4.1",), (), ("pytest==8.4.1",))),
        ("uvx --python=3.12.4 ruff@latest check", ScriptNeeds("3.12", ("ruff",))),
        ("uvx --from 'pytest[x]==8' -p cpython3.11 py.test", ScriptNeeds("3.11", ("pytest[x]==8",))),
        ("uv tool run -p 3.10 --with a,b pytest", ScriptNeeds("3.10", ("a", "b", "pytest"))),
        ("uv venv --python 3.12 /v; uv pip install a==1", ScriptNeeds("3.12", ("a==1",))),
        ("uv init && uv add a==1 b", ScriptNeeds(None, ("a==1", "b"), (), ("a==1", "b"), has_project=True)),
        ("uv run -p 3.13 --with a==1 pytest -w x", ScriptNeeds("3.13", ("a==1",), has_project=True)),
        ("uv python install 3.12", ScriptNeeds("3.12")),
        ("uvx -p 3.13 a; pip install b", ScriptNeeds("3.13", ("a", "b"), (), ("b",))),
        (
            "DEBIAN_FRONTEND=x apt-get -qq -o A=b install --yes a1 'b2' -t sid",
            ScriptNeeds(packages=("a1", "b2")),
        ),
        ("apt update && apt install -y vim", ScriptNeeds(packages=("vim",))),
    ],
)
def test_ways_to_ask(script: str, needs: ScriptNeeds) -> None:
    assert needs_of(script) == needs


@pytest.mark.parametrize(
    "script",
    [
        "",
        "echo pip install a",
        "cat > x <<'END'\npip install a\nuvx b\nEND\n",
        "pip uninstall a; pip list; pip install",
        "uv; uvx; uv pip; uv tool; uv python; apt-get; apt-get install; python -m; bash -c; timeout",
        "pip install --index-url",
        "pip install 'unclosed",
        "pip install -r /etc/passwd file:///etc/passwd /etc/passwd ../x a.whl -e . http://x/y 'a @ file:///x'",
        "pip install '--index-url=x' '-f/etc'",
        "apt-get install -y ../evil.deb '$(id)' \"`id`\" A",
        "pip install a" + "b" * 40_000,
        "bash -c " * 50 + "'pip install a'",
        "\0\x1b pip",
        "<<<<<<< && | ; ; ) ( > < 2>",
    ],
)
def test_script_without_needs(script: str) -> None:
    assert needs_of(script) == ScriptNeeds()


def test_too_much_is_refused_with_the_remedy() -> None:
    with pytest.raises(ScorerFailed, match=r"tests/test\.sh"):
        needs_of("#" * (MOST_SCRIPT_BYTES + 1))
    with pytest.raises(ScorerFailed, match="put the others into the image"):
        needs_of("\n".join(f"pip install p{number}" for number in range(300)))


@pytest.mark.parametrize("piece", ["( ", "pip install ", "\\\n", "<<A\n", "'\n", "bash -c '"])
def test_a_script_of_many_pieces_is_read_to_its_end(piece: str) -> None:
    assert needs_of(piece * 20_000) in (ScriptNeeds(), ScriptNeeds(None, ("pip",), (), ("pip",)))
