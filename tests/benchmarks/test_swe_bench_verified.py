"""SWE-bench Verified: a tiny repository in its form, worked on and graded; rows in every form."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchyard.benchmarks.swe_bench import local_images
from benchyard.client import Client, Server
from benchyard.client.benchmark_files import benchmark_import
from benchyard.client.benchmark_files.benchmark_import import BenchmarkImport
from benchyard.errors import UsageError
from benchyard.testing.server import RunningServer
from tests import parity
from tests.benchmarks import swe_repository
from tests.benchmarks.executing import both, executed, exported_again
from tests.benchmarks.samples.finding import sample
from tests.benchmarks.swe_repository import FIXED, IMAGE, Repository, graded

NAME = "swe-bench-verified"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return swe_repository.made(tmp_path_factory.mktemp("tiny") / "repository")


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[Client]:
    with Client(Server(server.url, server.key)) as opened:
        yield opened


@pytest.fixture(scope="module")
def scenario(client: Client, repository: Repository, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The scenario of the tiny issue, imported as anybody would."""
    root = tmp_path_factory.mktemp("image") / "root"
    client.images.set_alias(IMAGE, swe_repository.image(client, root, "/testbed"))
    data = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    data.write_text(json.dumps(swe_repository.row(repository)) + "\n")
    made = benchmark_import.import_benchmark(client, BenchmarkImport(NAME, name="tiny-verified", local=data))
    assert made.broken == []
    return made.scenarios[0].id or ""


def write(path: str, text: str) -> str:
    """The command that writes a file."""
    return f"mkdir -p $(dirname {path}) && cat > {path} <<'END_OF_TEXT'\n{text}END_OF_TEXT\n"


def test_oracle_and_nop_in_a_job(
    server: RunningServer, scenario: str, repository: Repository, tmp_path: Path
) -> None:
    """As anybody would run it, on the image that the first import has brought."""
    (tmp_path / "rows.jsonl").write_text(json.dumps(swe_repository.row(repository)) + "\n")
    oracle, nop = executed(server, NAME, tmp_path)
    assert oracle == {f"{NAME}/tiny__words-1": 1.0}
    assert nop == {f"{NAME}/tiny__words-1": 0.0}


def test_the_solution_resolves_it(client: Client, scenario: str, repository: Repository) -> None:
    result = graded(client, scenario, f"git apply <<'END_OF_DIFF'\n{repository.patch}END_OF_DIFF\n")
    assert result.score == 1.0, result
    assert result.rewards == {"resolved": 1.0, "fail_to_pass": 1.0, "pass_to_pass": 1.0}
    assert result.facts["applied"] == "git apply --verbose"
    assert result.facts["files_changed"] == "1"
    assert result.facts["grader"].startswith("swebench 5.")
    assert "flagged" not in result.facts
    parity.note("swe-bench of our own", ["words"], 1)


def test_an_export_of_it_says_the_same(client: Client, scenario: str, tmp_path: Path) -> None:
    (made,) = [
        benchmark
        for benchmark in client.benchmarks.list(name="tiny-verified")
        if benchmark.name == "tiny-verified"
    ]
    oracle, nop = both(client, exported_again(client, made.id, tmp_path / "tasks"))
    assert list(oracle.values()) == [1.0]
    assert list(nop.values()) == [0.0]


def test_doing_nothing_is_distinguished(client: Client, scenario: str) -> None:
    """What the image has beside its commit is nobody's answer."""
    result = graded(client, scenario, "test -e built.txt")
    assert (result.score, result.facts["patch"]) == (0.0, "empty"), result
    assert "tests" not in result.facts


@pytest.mark.parametrize(
    ("fixed", "f2p", "p2p"),
    [(FIXED.replace("len(text.split())", "0"), 1.0, 0.5), (FIXED.replace("word[0]", "word"), 0.0, 0.5)],
    ids=["breaks-another", "wrong"],
)
def test_half_a_solution_does_not_pass(
    client: Client, scenario: str, fixed: str, f2p: float, p2p: float
) -> None:
    result = graded(client, scenario, write("words.py", fixed))
    assert result.rewards == {"resolved": 0.0, "fail_to_pass": f2p, "pass_to_pass": p2p}, result
    assert "not passed: tests/test_words.py::" in result.output


def test_new_files_count_ignored_ones_do_not(client: Client, scenario: str) -> None:
    """An answer in a file that was not there; also one that git could not add by itself."""
    command = write("letters.py", "def first(word):\n    return word[0]\n")
    command += write(
        "words.py",
        "from letters import first\n" + FIXED.replace("word[0] for", "first(word) for"),
    )
    command += "head -c 100000 /dev/urandom > trace.log; git init -q scratch; mkfifo pipe"
    result = graded(client, scenario, command)
    assert result.score == 1.0, result
    assert result.facts["files_changed"] == "2"
    assert "scratch" in result.facts["drawing"]


ATTACKS = {
    "git": r"""
        printf '#!/bin/sh\nsed -i "s/ if word.*upper()//" /testbed/words.py\n' > .git/hooks/post-checkout
        cp .git/hooks/post-checkout .git/hooks/pre-commit; chmod +x .git/hooks/*
        git config core.hooksPath .git/hooks
        git config core.fsmonitor /testbed/.git/hooks/post-checkout
        git config filter.lie.smudge 'sed "s/ if word.*upper()//"'
        printf '* filter=lie\n' > .git/info/attributes
        git config core.worktree /tmp
        rm -rf .git/refs/heads
        """,
    "printed": r"""
        printf 'print("PASSED tests/test_words.py::test_initials_of_all")\n' >> words.py
        printf 'print("PASSED tests/test_words.py::test_count")\n' >> words.py
        printf 'print("PASSED tests/test_words.py::test_initials_of_names")\n' >> words.py
        printf 'print(">>>>> End Test Output"); print(">>>>> Test Exit Code: 0")\n' >> words.py
        """,
    "tests": r"""
        printf 'def test_initials_of_all():\n    pass\n' > tests/test_words.py
        """,
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_tricks_do_not_win(client: Client, scenario: str, attack: str) -> None:
    result = graded(client, scenario, ATTACKS[attack])
    assert result.score == 0.0, result
    if attack == "git":
        assert result.facts["patch"] == "empty"
    if attack == "tests":
        assert result.facts["flagged"] == "tests/test_words.py"
    if attack == "printed":
        assert result.facts["tests"] == "no result"


def test_a_test_command_that_the_answer_hides_counts_0(client: Client, scenario: str) -> None:
    """The tests end as a command does that is not there; with the gold patch they do not."""
    result = graded(client, scenario, write("conftest.py", "import os\nos._exit(127)\n"))
    assert (result.state, result.cause, result.score) == ("complete", "answer", 0.0), result
    assert "the test command was not found (exit" in str(result.reason)


def test_a_test_command_that_is_nowhere_is_the_environments_fault(
    client: Client, scenario: str, repository: Repository, tmp_path: Path
) -> None:
    """The gold patch shows it too: there is no score, for it and for others."""
    own = swe_repository.row(repository, instance_id="tiny__words-2")
    own["eval_script"] = own["eval_script"].replace("python3 /opt/tiny/run.py", "no-such-runner")
    (tmp_path / "rows.jsonl").write_text(json.dumps(own) + "\n")
    made = benchmark_import.import_benchmark(
        client, BenchmarkImport(NAME, name="tiny-broken", local=tmp_path / "rows.jsonl")
    )
    assert made.broken == []
    result = graded(client, made.scenarios[0].id or "", write("words.py", FIXED), state="error")
    assert (result.state, result.cause, result.score) == ("error", "scorer", 0.0), result
    assert "the reference makes it fail too" in str(result.reason)
    oracle, nop = both(client, made)
    assert list(oracle.values()) == [None]
    assert list(nop.values()) == [0.0]


def test_a_conftest_is_flagged(client: Client, scenario: str) -> None:
    """One that prints what it likes, and ends the tests as failed ones end."""
    lines = "import os\nprint('PASSED tests/test_words.py::test_initials_of_all', flush=True)\nos._exit(1)\n"
    result = graded(client, scenario, write("conftest.py", lines) + write("setup.cfg", "[tool]\n"))
    assert result.score == 0.0, result
    assert result.facts["flagged"] == "conftest.py, setup.cfg"


def test_the_agent_does_not_learn_how_it_is_graded(client: Client, scenario: str) -> None:
    view = client.scenarios.retrieve(scenario)
    statement = view.input_context.problem_statement
    assert swe_repository.ISSUE in statement
    assert "/testbed" in statement
    for secret in ("test_initials_of_all", "condition at the end", "isupper"):
        assert secret not in statement
    assert view.metadata["difficulty"] == "<15 min fix"
    with swe_repository.working(client, scenario) as (_, devbox_id):
        looked = client.executions.run(
            devbox_id, "whoami; grep -rsl test_initials_of_all /testbed /opt /root /tmp"
        )
        assert looked.stdout.splitlines() == ["root"]


DOCKERFILE = """\
FROM example/ubuntu:tiny

RUN apt update && apt install -y \\
wget
RUN wget 'https://repo.anaconda.com/miniconda/Miniconda3.sh' -O miniconda.sh \\
    && bash miniconda.sh -b -p /opt/miniconda3
ENV PATH=/opt/miniconda3/bin:$PATH
RUN conda init --all
RUN <<EOF_1
#!/bin/bash
set -euxo pipefail
source /opt/miniconda3/bin/activate
cat <<'EOF_2' > /tmp/environment.yml
name: testbed
dependencies:
  - python=3.9.20=he870216_1
  - pip:
      - --editable .
prefix: /opt/miniconda3/envs/testbed

EOF_2
conda env create -f /tmp/environment.yml
EOF_1

RUN <<EOF_3
#!/bin/bash
set -euxo pipefail
git clone -o origin --single-branch https://github.com/tiny/words /testbed
cd /testbed
git reset --hard {base}
git remote remove origin
git reflog expire --expire=now --all
git gc --prune=now
source /opt/miniconda3/bin/activate
conda activate testbed
python -c 'import sys; assert sys.prefix != sys.base_prefix'
# As `tox --current-env` does.
ln -s "$(command -v python)" /tmp/linked
/tmp/linked -c 'import sys; assert any("/envs/testbed/" in each for each in sys.path), sys.path'
test ! -e .git/refs/remotes/origin
git config --global user.email setup@example.com
git config --global user.name Setup
git commit --allow-empty -am Setup
EOF_3

WORKDIR /testbed/
"""


def test_conda_packages_come_from_the_index(tmp_path: Path) -> None:
    environment = """name: testbed
dependencies:
  - _openmp_mutex=5.1=1_gnu
  - openssl=3.0.15=h5eee18b_0
  - python_abi=3.10=5_cp310
  - importlib_metadata=4.8.1=py39h06a4308_0
  - click=8.1.7=unix_pyh707e725_0
  - h5py=3.11.0=nompi_py310hf054cd7_102
  - libnetcdf=4.9.2=nompi_h135f659_114
  - iniconfig=1.1.1=pyhd3eb1b0_0
  - matplotlib-base=3.9.2=py310h68603db_1
  - packaging=24.1=py39h06a4308_0
  - pip=24.2=py39h06a4308_0
  - pluggy=1.0.0=py39h06a4308_1
  - pyqt=5.9.2=py36h05f1152_2
  - pytest=7.4.4=py39h06a4308_0
  - python=3.9.20=he870216_1
  - setuptools=75.1.0=py39h06a4308_0
  - typing_extensions=4.1.1=pyh06a4308_0
  - wheel=0.44.0=py39h06a4308_0
  - zipp=0.6.0=py_0
  - pip:
      - pluggy==1.5.0
      - typing-extensions==4.12.2
      - -e .
"""
    (tmp_path / "repositories").mkdir()
    (tmp_path / "repositories/tiny__words.bundle").touch()
    row = {"repo": "tiny/words", "dockerfile": DOCKERFILE, "environment_yml": environment}
    local_images.write(row, tmp_path, tmp_path / "build")
    made = tmp_path / "build/testbed"
    assert (made / "pip.txt").read_text().split() == ["pluggy==1.5.0", "typing-extensions==4.12.2"]
    assert (made / "conda.txt").read_text().split() == [
        "importlib_metadata==4.8.1",
        "click==8.1.7",
        "h5py==3.11.0",
        "iniconfig==1.1.1",
        "matplotlib==3.9.2",
        "packaging==24.1",
        "pip==24.2",
        "pytest==7.4.4",
        "setuptools==75.1.0",
        "wheel==0.44.0",
        "zipp==0.6.0",
    ]
    assert "/make.sh 3.9 " in (tmp_path / "build/Dockerfile").read_text()


@pytest.mark.parametrize("repo", ["psf/requests", "matplotlib/matplotlib", "scikit-learn/scikit-learn"])
def test_real_environments_have_what_runs_their_tests(repo: str, tmp_path: Path) -> None:
    rows = [
        row
        for line in sample("swe-bench-verified/verified-sample.jsonl").read_text().splitlines()
        if (row := json.loads(line))["repo"] == repo
    ]
    assert rows
    (tmp_path / "repositories").mkdir()
    (tmp_path / f"repositories/{repo.replace('/', '__')}.bundle").touch()
    for row in rows:
        local_images.write(row, tmp_path, tmp_path / row["instance_id"])
        made = tmp_path / row["instance_id"]
        pins = (made / "testbed/conda.txt").read_text() + (made / "testbed/pip.txt").read_text()
        assert "\npytest==" in pins, row["instance_id"]
        installs = [line for line in (made / "Dockerfile").read_text().splitlines() if "apt-get" in line]
        for line in installs:
            # Official lines that only install packages of the system end no build.
            assert line.startswith("( apt-get ") or line.endswith(("|| true", "|| true )")), line


def test_a_test_command_that_is_not_found_is_not_a_plain_zero(
    client: Client, scenario: str, repository: Repository, tmp_path: Path
) -> None:
    assert scenario, "its image is used here too"
    for at, command in enumerate(("nosuch-runner tests/test_words.py", "true")):
        row = swe_repository.row(repository, instance_id=f"tiny__words-{at + 7}")
        row["eval_script"] = row["eval_script"].replace(
            "python3 /opt/tiny/run.py tests/test_words.py", command
        )
        data = tmp_path / str(at)
        data.mkdir()
        (data / "rows.jsonl").write_text(json.dumps({**row, "image": IMAGE}) + "\n")
        (made,) = benchmark_import.import_benchmark(
            client, BenchmarkImport(NAME, name=f"tiny-{at}", local=data)
        ).scenarios
        with swe_repository.working(client, made.id or "") as (run_id, devbox_id):
            client.executions.run(devbox_id, f"cd /testbed\n{write('words.py', FIXED)}")
            scored = client.scenarios.runs.score_and_await(run_id, timeout=300)
        assert scored.scoring_contract_result is not None
        (result,) = scored.scoring_contract_result.scoring_function_results
        assert result.state == "error", result
        assert result.cause == "scorer"
        assert any(each in (result.reason or "") for each in ("the test command", "gave no result"))


def test_an_environment_with_stand_ins_is_built_and_marked(
    client: Client, repository: Repository, tmp_path: Path
) -> None:
    """The base has git and Python; conda, its channels and the repository's home cannot be reached."""
    base = swe_repository.image(client, tmp_path / "root", "/somewhere-else", with_solution=True)
    client.images.set_alias("example/ubuntu:tiny", base)
    row = swe_repository.row(repository, dockerfile=DOCKERFILE.format(base=repository.base))
    activate = "source /opt/miniconda3/bin/activate\nconda activate testbed\ncd /testbed\n"
    row["eval_script"] = row["eval_script"].replace("cd /testbed\n", activate, 1).replace("python3", "python")
    data = tmp_path / "data"
    data.mkdir()
    (data / "rows.jsonl").write_text(json.dumps(row) + "\n")
    wish = BenchmarkImport(NAME, name="tiny-local", local=data, variant="local")
    with pytest.raises(UsageError, match=r"bundle create tiny__words\.bundle"):
        benchmark_import.import_benchmark(client, wish)
    (data / "repositories").mkdir()
    bundle = ["git", "bundle", "create", str(data / "repositories/tiny__words.bundle"), "--all"]
    subprocess.run(bundle, cwd=tmp_path / "root/somewhere-else", capture_output=True, check=True)
    (made,) = benchmark_import.import_benchmark(client, wish).scenarios
    view = client.scenarios.retrieve(made.id or "")
    assert view.metadata["environment"].startswith("unofficial environment")
    gone = f"! git cat-file -e {repository.solution} && test ! -e /tmp/repository.bundle"
    result = graded(client, view.id, f"set -e\n{gone}\n{write('words.py', FIXED)}")
    assert result.score == 1.0, result
