"""Evaluation scripts of SWE-bench Verified, for rows of the older form, which lack them.

Installs and tests the twelve projects, by version, like the harness of SWE-bench (MIT). The newer form of the
data has the script in the row; that one is always preferred.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from benchyard.errors import DatasetError

_CONDA = ("source /opt/miniconda3/bin/activate", "conda activate testbed")
_PIP = "python -m pip install"
_LOCALE = ("export LANG=en_US.UTF-8", "export LANGUAGE=en_US:en", "export LC_ALL=en_US.UTF-8")
_DJANGO = "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1"
_ENDING = "EOF_114329324912"
_NO_TESTS = (".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml")
_HEAD = "diff --git a/"
_OTHER = " b/"


@dataclass(frozen=True)
class Project:
    """Commands that install and test a project."""

    parser: str
    """Name of its log parser in the package `swebench`."""
    test: str = "pytest -rA"
    install: str = f"{_PIP} -e ."


@dataclass(frozen=True)
class Tests:
    """Tests of an item, and the commit they are run on."""

    base_commit: str
    patch: str
    """Patch that adds the tests."""
    item: str = ""


_PROJECTS = {
    "astropy/astropy": Project("parse_log_astropy", install=f"{_PIP} -e .[test] --verbose"),
    "django/django": Project("parse_log_django", _DJANGO),
    "matplotlib/matplotlib": Project("parse_log_matplotlib"),
    "mwaskom/seaborn": Project("parse_log_seaborn", "pytest --no-header -rA", f"{_PIP} -e .[dev]"),
    "pallets/flask": Project("parse_log_flask"),
    "psf/requests": Project("parse_log_requests", install=f"{_PIP} ."),
    "pydata/xarray": Project("parse_log_xarray"),
    "pylint-dev/pylint": Project("parse_log_pylint"),
    "pytest-dev/pytest": Project("parse_log_pytest"),
    "scikit-learn/scikit-learn": Project(
        "parse_log_scikit", install=f"{_PIP} -v --no-use-pep517 --no-build-isolation -e ."
    ),
    "sphinx-doc/sphinx": Project("parse_log_sphinx", "tox --current-env -epy39 -v --", f"{_PIP} -e .[test]"),
    "sympy/sympy": Project(
        "parse_log_sympy",
        "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose",
    ),
}
_OTHER_TESTS = (
    ("django/django", ("1.9",), "./tests/runtests.py --verbosity 2"),
    ("astropy/astropy", ("0", "1"), "pytest -rA -vv -o console_output_style=classic --tb=no"),
)
_OTHER_INSTALLS = (
    ("django/django", ("1", "2"), "python setup.py install"),
    ("mwaskom/seaborn", ("0.11",), f"{_PIP} -e ."),
    ("matplotlib/matplotlib", ("3.8", "3.9"), f'{_PIP} --no-build-isolation -e ".[dev]"'),
    ("matplotlib/matplotlib", ("1", "2"), "python setup.py build; python setup.py install"),
)
"""Project, beginnings of its versions, and the command they use instead."""
_LAST = dict.fromkeys(("astropy__astropy-8707", "astropy__astropy-8872"), (f"{_PIP} -q 'pytest<7.2'",))
"""Item -> commands to run right before its tests."""


def parser(repo: str) -> str:
    """Return the parser of a project's logs; raises DatasetError for a project not in Verified."""
    return _project(repo).parser


def script(repo: str, version: str, tests: Tests) -> str:
    """Return the evaluation script of an item."""
    project = _project(repo)
    paths = list(_changed_paths(tests.patch))
    restore = f"git checkout {tests.base_commit} {' '.join(paths)}"
    test = _other(_OTHER_TESTS, repo, version) or project.test
    install = _other(_OTHER_INSTALLS, repo, version) or project.install
    lines = (
        *("#!/bin/bash", "set -uxo pipefail", *_CONDA, "cd /testbed", *_before(repo, version)),
        *("git config --global --add safe.directory /testbed", "cd /testbed", "git status", "git show"),
        *(f"git -c core.fileMode=false diff {tests.base_commit}", *_CONDA, install),
        *(restore, f"git apply -v - <<'{_ENDING}'\n{tests.patch}\n{_ENDING}"),
        *_LAST.get(tests.item, ()),
        *(": '>>>>> Start Test Output'", " ".join([test, *_directives(repo, paths)])),
        *(": '>>>>> End Test Output'", restore),
    )
    return "\n".join(lines) + "\n"


def _project(repo: str) -> Project:
    if repo not in _PROJECTS:
        raise DatasetError(
            f"the row has no eval_script, and {repo!r} is not among the projects of SWE-bench Verified; "
            "give the data in its newer form, with eval_script and log_parser"
        )
    return _PROJECTS[repo]


def _other(table: Iterable[tuple[str, tuple[str, ...], str]], repo: str, version: str) -> str:
    """Return a table's command for a version; empty if it has none."""
    for project, beginnings, value in table:
        if project == repo and any(f"{version}.".startswith(f"{beginning}.") for beginning in beginnings):
            return value
    return ""


def _before(repo: str, version: str) -> Iterator[str]:
    """Yield commands that set the locale: only older versions of django need them."""
    if repo != "django/django" or version in ("1.4", "1.5", "1.6"):
        return
    if version.startswith("3."):
        yield "sed -i '/en_US.UTF-8/s/^# //g' /etc/locale.gen && locale-gen"
        yield from _LOCALE
    elif version.startswith(("1.", "2.")):
        yield from (_LOCALE[0], _LOCALE[2], "export PYTHONIOENCODING=utf8", _LOCALE[1])


def _directives(repo: str, paths: list[str]) -> list[str]:
    """Return the arguments of the test command: modules for django, files for others."""
    tests = [path for path in paths if not path.endswith(_NO_TESTS)]
    if repo != "django/django":
        return tests
    return [path.removesuffix(".py").removeprefix("tests/").replace("/", ".") for path in tests]


def _changed_paths(patch: str) -> Iterator[str]:
    """Yield the paths in the headers of a diff."""
    for line in patch.split("\n"):
        _, is_head, names = line.partition(_HEAD)
        if is_head and _OTHER in names:
            yield names.rpartition(_OTHER)[2]
