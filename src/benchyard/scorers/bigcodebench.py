"""Answers to BigCodeBench, graded by unit tests with the official packages, here or in other harnesses."""

import json
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from packaging.specifiers import SpecifierSet
from pydantic import Field

from benchyard.errors import ScorerFailed
from benchyard.hosts.kits import Kit, Kits
from benchyard.models.base import Model, ShortText, WireFloat
from benchyard.models.scoring.attachments import PackedFile
from benchyard.models.scoring.exports import Attachments, PythonNeeds, ScorerExport
from benchyard.scorers import base, score
from benchyard.scorers.base import ProgramOptions, Room, Scorer, ScoringContext, Verdict
from benchyard.scorers.kits import packages, python_kit, pythons
from benchyard.scorers.standalone import bigcodebench_input, bigcodebench_runner
from benchyard.workers.workers import WorkerLimits

PYTHON = SpecifierSet("==3.10.*")
_LIST = """
beautifulsoup4==4.8.2 blake3==0.4.1 chardet==5.2.0 cryptography==38.0.0 datetime==5.5 django==4.2.7
dnspython==2.6.1 docxtpl==0.11.5 faker==20.1.0 flask==3.0.3 flask-login==0.6.3 flask-mail==0.9.1
flask-restful==0.3.10 flask-wtf==1.2.1 folium==0.16.0 gensim==4.3.2 geopandas==0.13.2 geopy==2.4.1
holidays==0.29 keras==2.11.0 levenshtein==0.25.0 librosa==0.10.1 lxml==4.9.3 matplotlib==3.7.0
mechanize==0.4.9 natsort==7.1.1 networkx==2.6.3 nltk==3.8 numba==0.55.0 numpy==1.21.2
opencv-python-headless==4.9.0.80 openpyxl==3.1.2 pandas==2.0.3 pillow==10.3.0 prettytable==3.10.0
psutil==5.9.5 pycryptodome==3.14.1 pyfakefs==5.4.1 pyquery==1.4.3 pytesseract==0.3.10 pytest==8.2.0
python-dateutil==2.9.0 python-docx==1.1.0 python-http-client==3.3.7 python-levenshtein-wheels==0.13.2
pytz==2023.3.post1 pyyaml==6.0.1 requests==2.31.0 requests-mock==1.11.0 rsa==4.9 scikit-image==0.18.0
scikit-learn==1.3.1 scipy==1.7.2 seaborn==0.13.2 selenium==4.15 sendgrid==6.11.0 shapely==2.0.4
soundfile==0.12.1 statsmodels==0.14.0 sympy==1.12 tensorflow==2.11.1 textblob==0.18.0 texttable==1.7.0
werkzeug==3.0.1 wikipedia==1.4.0 wordcloud==1.9.3 wordninja==2.0.0 wtforms==3.1.2 xlrd==2.0.1
xlwt==1.3.0 xmltodict==0.13.0
"""
PINS = dict(part.split("==") for part in _LIST.split())
"""Package -> the version of the official image."""
NEAREST = {"flask-mail": "0.10.0", "scikit-image": "0.19.3", "selenium": "4.15.2"}
"""Package without a wheel of the official version -> the nearest version that has one."""
WITHOUT_WHEELS = ("python-levenshtein-wheels", "wikipedia", "wordninja")
_MODULES = {
    **{"bs4": "beautifulsoup4", "cv2": "opencv-python-headless", "dateutil": "python-dateutil"},
    **{"dns": "dnspython", "docx": "python-docx", "mpl_toolkits": "matplotlib", "pil": "pillow"},
    **{"skimage": "scikit-image", "sklearn": "scikit-learn", "yaml": "pyyaml", "crypto": "pycryptodome"},
}
_NEEDS = {
    "docxtpl": ("lxml", "python-docx"),
    "faker": ("python-dateutil",),
    "flask": ("werkzeug",),
    "flask-login": ("flask",),
    "flask-mail": ("flask",),
    "flask-restful": ("flask", "pytz"),
    "flask-wtf": ("flask", "wtforms"),
    "folium": ("numpy", "requests"),
    "gensim": ("numpy", "scipy"),
    "geopandas": ("pandas", "shapely"),
    "holidays": ("python-dateutil",),
    "librosa": ("numba", "scikit-learn", "scipy", "soundfile"),
    "matplotlib": ("numpy", "pillow", "python-dateutil"),
    "numba": ("numpy",),
    "opencv-python-headless": ("numpy",),
    "pandas": ("numpy", "python-dateutil", "pytz"),
    "pyquery": ("lxml",),
    "pytesseract": ("pillow",),
    "python-docx": ("lxml",),
    "requests-mock": ("requests",),
    "scikit-image": ("networkx", "numpy", "pillow", "scipy"),
    "scikit-learn": ("numpy", "scipy"),
    "scipy": ("numpy",),
    "seaborn": ("matplotlib", "pandas"),
    "sendgrid": ("python-http-client",),
    "shapely": ("numpy",),
    "statsmodels": ("pandas", "scipy"),
    "tensorflow": ("keras", "numpy"),
    "textblob": ("nltk",),
    "wikipedia": ("beautifulsoup4", "requests"),
    "wordcloud": ("matplotlib", "numpy", "pillow"),
}
"""Package -> its dependencies in the list, which must have their official versions too."""


def packages_of_modules(modules: Iterable[str]) -> tuple[str, ...]:
    """Return the packages of the list that provide these modules, and their dependencies."""
    packages = [_package(module) for module in modules if module not in sys.stdlib_module_names]
    names: set[str] = set()
    while packages:
        name = packages.pop()
        if name in PINS and name not in names:
            names.add(name)
            packages += _NEEDS.get(name, ())
    return tuple(sorted(names))


def index_requirements(packages: Iterable[str], *, official_python: bool) -> tuple[str, ...]:
    """Return the requirements to install these packages from the index.

    With a Python other than the official one they ask for the official version or later, as old versions have
    no wheels for it.
    """
    there = [name for name in packages if name not in WITHOUT_WHEELS]
    if official_python:
        return tuple(f"{name}=={NEAREST.get(name, PINS[name])}" for name in there)
    return tuple(f"{name}>={PINS[name]}{',<2' if name == 'numpy' else ''}" for name in there)


def environment_differences(packages: Iterable[str], installed: str, python: str) -> tuple[str, ...]:
    """Return the differences between an environment and the official one, a line each.

    `installed` is `name==version ...`.
    """
    versions = {
        _normal(name): version for name, _, version in (one.partition("==") for one in installed.split())
    }
    differences = [] if PYTHON.contains(python) else [f"Python {python} instead of 3.10"]
    missing = [name for name in PINS if name not in packages]
    if missing:
        differences.append(f"without the {len(missing)} packages that the item does not need")
    for name in packages:
        have = versions.get(name)
        if have is None:
            differences.append(f"without {name}")
        elif SpecifierSet(f"=={PINS[name]}.*" if name == "selenium" else f"=={PINS[name]}").contains(have):
            continue
        else:
            differences.append(f"{name} {have} instead of {PINS[name]}")
    return tuple(differences)


def _package(module: str) -> str:
    return _MODULES.get(module.lower(), _normal(module))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


TIME_LIMIT_SEC = 240.0
_MOST_FACT = 4000
_INPUT = "benchyard.scorers.standalone.parsers:make_bigcodebench_input"
_RESULT = "benchyard.scorers.standalone.parsers:bigcodebench_result"
_INPUT_LIMITS = WorkerLimits(output_bytes=16 * 1024**2)
_SKIP = "skip"
"""Word, in lower case, found in tests that may be skipped, such as `skipTest` or `unittest.skip`."""
_MISSING = re.compile(r"No module named '([A-Za-z0-9_]+)")

Text = Annotated[str, Field(max_length=base.MOST_SCRIPT_BYTES)]


class BigcodebenchConfig(Model):
    """Fields of a `bigcodebench_scorer`."""

    code_prompt: Text
    """Imports and signature that come before the answer."""
    test: base.Script
    """Code of the tests, with the class `TestCases`."""
    entry_point: ShortText = "task_func"
    answer: base.FilePath = "solution.py"
    modules: list[ShortText] | None = Field(default=None, max_length=200)
    """Modules to install the packages of, with their dependencies; None is the whole official list."""
    time_limit_sec: WireFloat = Field(default=TIME_LIMIT_SEC, gt=0, le=3600)


class BigcodebenchScorer(Scorer[BigcodebenchConfig]):
    """Gives 1.0 if every test passes, else 0.0; the answer runs as nobody, with the official limits."""

    Config = BigcodebenchConfig

    def __init__(self, config: BigcodebenchConfig, context: ScoringContext) -> None:
        super().__init__(config, context)
        self._packages = packages_of(config)
        self._python: Kit | None = None
        self._program = ""
        self._facts: dict[str, str] = {}

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        chosen = await _python()
        self._python = await python_kit.make(chosen, kits)
        self._program = python_kit.program(self._python.target)
        shown, installed = [self._python], ""
        is_official = PYTHON.contains(chosen.version)
        if requirements := index_requirements(self._packages, official_python=is_official):
            environment = await packages.make(chosen, self._python, requirements, kits)
            installed = packages.resolved_versions(environment)
            self._program = python_kit.program(environment.target)
            shown.append(environment)
        self._note(chosen.version, installed)
        return tuple(shown)

    def _note(self, version: str, installed: str) -> None:
        differences = environment_differences(self._packages, installed, version)
        self._facts = {
            "python": version,
            "packages": installed[:_MOST_FACT],
            "environment": "unofficial environment" if differences else "official environment",
        }
        if differences:
            self._facts["differences"] = "; ".join(differences)[:_MOST_FACT]

    async def score(self, room: Room) -> Verdict:
        if self._python is None:
            raise ScorerFailed("the Python of this scorer was not prepared")
        content = await room.fetch(self.config.answer, bigcodebench_input.MOST_ANSWER_BYTES)
        if content is None:
            return Verdict(0.0, f"there is no {self.config.answer}", self._facts)
        program = await room.keep("run.py", Path(bigcodebench_runner.__file__).read_bytes())
        told = await self.context.call(_INPUT, content, {"item": self.config.model_dump()}, _INPUT_LIMITS)
        job = await room.keep("job.json", told)
        environment = {**python_kit.environment(self._python.target), "MPLBACKEND": "agg"}
        # The program starts as root only to wait, and becomes nobody before any of the answer's code runs.
        ran = await room.run(
            (self._program, "-I", "-X", "utf8", program, job),
            ProgramOptions(env=environment, cwd="/", user="root", most_output=4 * 1024**2),
        )
        score.require_end(ran)
        said = await self.context.call(_RESULT, ran.stdout)
        if said is None:
            raise score.failure("the answer could not be run in this room", ran)
        return self._verdict(said)

    def _verdict(self, said: dict[str, Any]) -> Verdict:
        bad = said.get("bad", [])
        text = "\n".join(f"{name}: {reason}" for name, reason in bad)
        skipped = int(said.get("skipped", 0))
        summary = f"{said.get('good', 0)} tests passed" + (f", {skipped} skipped" if skipped else "")
        output = said.get("reason") or (summary if not bad else text)
        if self.config.modules is not None and (lacking := self._lacking(text)):
            raise ScorerFailed(
                f"the answer uses {', '.join(lacking)}, which the official environment has, and that of this "
                "scenario has not; import the benchmark with its whole environment (without `small`)",
                output=output[-_MOST_FACT:],
            )
        suspect = None
        if skipped > self.config.test.lower().count(_SKIP):
            suspect = f"{skipped} of the tests were skipped, which they do not ask for"
        facts = {**self._facts, "skipped": str(skipped)} if skipped else self._facts
        return Verdict(1.0 if said["passed"] else 0.0, output[-_MOST_FACT * 8 :], facts, suspect=suspect)

    def _lacking(self, text: str) -> list[str]:
        packages = {name for module in _MISSING.findall(text) for name in packages_of_modules([module])}
        return sorted(packages - {*self._packages, *WITHOUT_WHEELS})


def packages_of(config: BigcodebenchConfig) -> tuple[str, ...]:
    """Return the names of the packages that an item is run with."""
    return tuple(PINS) if config.modules is None else tuple(packages_of_modules(config.modules))


async def _python() -> pythons.Python:
    try:
        return await pythons.choose(PYTHON)
    except ScorerFailed:
        return await pythons.choose(None)


_PYTHON = "3.10"
_STORAGE_MB = 16 * 1024
"""Disk for all packages: 5 GB when installed, and more while they are being installed."""
_SCRIPT = """\
if [ -f {answer} ] && [ ! -L {answer} ]; then
    chmod 755 "$work"
    "$python" -I -X utf8 "$own/job.py" "$own/item.json" {answer} "$work/job.json" ||
        fail "$name: the answer cannot be taken"
    MPLBACKEND=agg "$python" -I -X utf8 "$own/run.py" "$work/job.json" \\
        > "$logs/$name.out" 2> "$logs/$name.err" || fail "$name: the answer could not be run"
    told "$name"
    tail -n 1 "$logs/$name.out" | grep -q '^{{"passed": true'
    status=$?
else
    echo "there is no "{answer}
    status=1
fi
passed "$name" "$weight" "$status"
"""


def export(scorer: Mapping[str, Any], _attachments: Attachments, _seconds: float) -> ScorerExport:
    """Export the tests of one item as a script; the tests limit their own time."""
    config = BigcodebenchConfig.model_validate(dict(scorer))
    requirements = index_requirements(packages_of(config), official_python=True)
    item = config.model_dump(include={"code_prompt", "test", "entry_point", "time_limit_sec"})
    files = {
        "item.json": PackedFile(json.dumps(item, ensure_ascii=False).encode()),
        "job.py": PackedFile(Path(bigcodebench_input.__file__).read_bytes()),
        "run.py": PackedFile(Path(bigcodebench_runner.__file__).read_bytes()),
    }
    script = _SCRIPT.format(answer=shlex.quote(config.answer))
    disk = _STORAGE_MB if config.modules is None else None
    return ScorerExport(script, files, PythonNeeds(_PYTHON, requirements), user="root", storage_mb=disk)
