"""The packages of BigCodeBench's official environment, and which of them an item needs.

Names and versions are those of `Requirements/requirements-eval.txt` in bigcode-project/bigcodebench, whose
image has Python 3.10. Only wheels are installed here, so three packages come in the nearest version that has
one, and three that never had one are left out; whatever differs is told with each result.
"""

import re
import sys
from collections.abc import Iterable

from packaging.specifiers import SpecifierSet

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
PINS = dict(each.split("==") for each in _LIST.split())
"""Package -> the version of the official image."""
NEAREST = {"flask-mail": "0.10.0", "scikit-image": "0.19.3", "selenium": "4.15.2"}
"""Those whose official version has no wheel -> the nearest version that has one."""
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
"""Package -> those of the list that it depends on: their versions must be the official ones too."""


def of_modules(modules: Iterable[str]) -> tuple[str, ...]:
    """The packages of the list that these modules are of, with what they depend on."""
    wanted = [_package(module) for module in modules if module not in sys.stdlib_module_names]
    found: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in PINS and name not in found:
            found.add(name)
            wanted += _NEEDS.get(name, ())
    return tuple(sorted(found))


def requirements(packages: Iterable[str], *, official_python: bool) -> tuple[str, ...]:
    """What is asked of the index for these; with another Python than the official one, the oldest fitting."""
    there = [name for name in packages if name not in WITHOUT_WHEELS]
    if official_python:
        return tuple(f"{name}=={NEAREST.get(name, PINS[name])}" for name in there)
    return tuple(f"{name}>={PINS[name]}{',<2' if name == 'numpy' else ''}" for name in there)


def differences(packages: Iterable[str], installed: str, python: str) -> tuple[str, ...]:
    """How an environment differs from the official one, a line each; `installed` is `name==version ...`."""
    versions = {
        _normal(name): version for name, _, version in (one.partition("==") for one in installed.split())
    }
    told = [] if PYTHON.contains(python) else [f"Python {python} instead of 3.10"]
    missing = [name for name in PINS if name not in packages]
    if missing:
        told.append(f"without the {len(missing)} packages that the item does not need")
    for name in packages:
        have = versions.get(name)
        if have is None:
            told.append(f"without {name}")
        elif SpecifierSet(f"=={PINS[name]}.*" if name == "selenium" else f"=={PINS[name]}").contains(have):
            continue
        else:
            told.append(f"{name} {have} instead of {PINS[name]}")
    return tuple(told)


def _package(module: str) -> str:
    return _MODULES.get(module.lower(), _normal(module))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
