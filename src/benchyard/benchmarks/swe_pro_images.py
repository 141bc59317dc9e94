"""Images of SWE-Bench Pro: where the official ones are, and Dockerfiles that leave out what came later."""

import re

from benchyard.benchmarks import swe_rows
from benchyard.benchmarks.swe_rows import Row
from benchyard.errors import DatasetError

REGISTRY = "jefzda/sweap-images"
_LONGEST_TAG = 128
_ODD_TAG = "instance_element-hq__element-web-ec0f940ef0e8e3b61078f145f34dc40d1938e6c5-vnan"
"""The one whose tag is not made by the rule."""
_STAGE = "benchyard_base"
_FROM = re.compile(r"^FROM[ \t]+(\S+)[^\n]*$", re.MULTILINE)
_MIRROR = re.compile(r"^\d+\.dkr\.ecr\.[^/]+/docker-hub/(library/)?")
"""A private mirror that some Dockerfiles take public images from."""
_CLEAN = """\
RUN cd /app && git checkout -q --detach {commit} \\
 && git remote | xargs -r -n 1 git remote remove \\
 && git for-each-ref --format='delete %(refname)' | git update-ref --stdin \\
 && rm -f .git/FETCH_HEAD .git/ORIG_HEAD .git/MERGE_HEAD \\
 && git reflog expire --expire=now --all \\
 && git gc -q --prune=now \\
 && if git cat-file -e {solution} 2>/dev/null; then echo "the solution is still there" >&2; exit 1; fi
"""
"""Nothing is left of the repository's history but what leads to the base commit."""
_RUNS_BASH = 'ENTRYPOINT []\nCMD ["/bin/bash"]\n'


def tag(item: str, repo: str) -> str:
    """The tag of an item's image, by the rule of those who published them."""
    owner, _, name = repo.lower().partition("/")
    rest = item.removeprefix("instance_")
    if item != _ODD_TAG:
        rest = rest.removesuffix("-vnan")
        name = "element" if repo == "element-hq/element-web" else name
    return f"{owner}.{name}-{rest}"[:_LONGEST_TAG]


def from_image(image: str, commit: str, solution: str) -> str:
    """A Dockerfile over the official image, without what came after the base commit."""
    return f"FROM {image}\n{_CLEAN.format(commit=commit, solution=solution)}{_RUNS_BASH}"


def from_dockerfiles(row: Row, commit: str, solution: str) -> str:
    """The two Dockerfiles of an item as one, without what came after the base commit; raises DatasetError."""
    base = swe_rows.text(row, "base_dockerfile")
    instance = swe_rows.text(row, "instance_dockerfile")
    if len(_FROM.findall(base)) != 1 or len(_FROM.findall(instance)) != 1:
        raise DatasetError("base_dockerfile and instance_dockerfile must have one line FROM each")
    base = _FROM.sub(lambda found: f"FROM {_MIRROR.sub('', found[1])} AS {_STAGE}", base)
    instance = _FROM.sub(f"FROM {_STAGE}", instance)
    return f"{base}\n\n{instance}\n\n{_CLEAN.format(commit=commit, solution=solution)}{_RUNS_BASH}"


def env_lines(row: Row) -> tuple[str, ...]:
    """The `ENV` lines of both Dockerfiles, as the official harness takes them: one line each."""
    both = [swe_rows.text(row, name, default="") for name in ("base_dockerfile", "instance_dockerfile")]
    stripped = (line.strip() for text in both for line in text.split("\n"))
    return tuple(line for line in stripped if line.startswith("ENV"))
