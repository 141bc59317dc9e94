"""The commands that put an agent into its folder, by where it comes from; each begins in that folder."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchyard.agents.packages import Package
from benchyard.engine.mounts import CREDENTIALS
from benchyard.models.agents import AgentSource, GitSource, NpmSource, PipSource

TOKEN = "BY_TOKEN"  # noqa: S105  (a variable's name)

_NPM = """\
command -v npm >/dev/null || {
    echo "the server's default image has no npm: install Node.js with npm on the server" >&2
    exit 127
}
npm install --global --prefix "$PWD" --cache "$(mktemp -d)" --no-fund --no-audit --no-update-notifier \
    --no-progress --loglevel error -- "$BY_SPEC" ${BY_MORE:-} &&
mkdir -p bin && ln -sfn -- "$BY_NODE" bin/node
"""
_PIP = """\
mkdir -p -- bin "$BY_LIB" &&
printf 'home = %s\\ninclude-system-site-packages = false\\nversion = %s\\n' "$BY_HOME" "$BY_VERSION" \
    > pyvenv.cfg &&
ln -sfn -- "$BY_PYTHON" bin/python3 && ln -sfn python3 bin/python &&
UV_CACHE_DIR=$(mktemp -d) "$BY_UV" pip install --python "$PWD/bin/python3" --link-mode copy --no-progress \
    --color never --no-python-downloads --compile-bytecode -- "$BY_SPEC" ${BY_MORE:-}
"""
_GIT = (
    f"git -c credential.helper= -c credential.helper={shlex.quote(CREDENTIALS)} "
    'clone --quiet --recurse-submodules -- "$BY_URL" .'
)
_CHECKOUT = 'git checkout --quiet "$BY_REF" -- && git submodule --quiet update --init --recursive'
_CHECKOUT_IF_THERE = """\
for BY_REF in "$BY_WANTED" "v$BY_WANTED"; do
    git checkout --quiet "$BY_REF" -- 2>/dev/null && exec git submodule --quiet update --init --recursive
done
true
"""

_UNKNOWN = ("code ETARGET", "code E404", "there is no version of", "No matching distribution")


@dataclass(frozen=True)
class Step:
    """One command of an install."""

    title: str
    command: str
    env: Mapping[str, str] = field(default_factory=dict)
    takes_token: bool = False


def steps(source: AgentSource, version: str | None) -> list[Step]:
    """What is run for a package or a repository; objects are put in place by the host."""
    if source.npm:
        return [_npm(source.npm, version)]
    if source.pip:
        return [_pip(source.pip, version)]
    return _git(source.git, version) if source.git else []


def package_steps(package: Package) -> list[Step]:
    """What is run for a public agent: nothing of its own, since what we take of it needs no scripts."""
    env = {"BY_SPEC": package.spec, "BY_MORE": " ".join(package.more)}
    env |= {"npm_config_ignore_scripts": "true", "npm_config_omit": "optional"}
    script = _PIP if package.type == "pip" else _NPM
    steps = [Step(f"{package.type} install {package.spec}", script, env)]
    return steps + [Step(f"$ {command}", command) for command in package.setup]


def is_unknown_version(said: str) -> bool:
    """Whether what npm or pip said is that there is no such version."""
    return any(each in said for each in _UNKNOWN)


def _npm(source: NpmSource, version: str | None) -> Step:
    env = {"BY_SPEC": f"{source.package_name}@{version}" if version else source.package_name}
    if source.registry_url:
        env["npm_config_registry"] = source.registry_url
    return Step(f"npm install {env['BY_SPEC']}", _NPM, env)


def _pip(source: PipSource, version: str | None) -> Step:
    env = {"BY_SPEC": f"{source.package_name}=={version}" if version else source.package_name}
    if source.registry_url:
        env |= {"UV_DEFAULT_INDEX": source.registry_url, "PIP_INDEX_URL": source.registry_url}
    return Step(f"pip install {env['BY_SPEC']}", _PIP, env)


def _git(source: GitSource, version: str | None) -> list[Step]:
    env = {"BY_URL": source.repository, "GIT_TERMINAL_PROMPT": "0"}
    found = [Step(f"git clone {source.repository}", _GIT, env, takes_token=True)]
    if source.ref:
        found.append(Step(f"git checkout {source.ref}", _CHECKOUT, {"BY_REF": source.ref}, takes_token=True))
    elif version:
        # A version may be a tag or a branch, or just what its user calls it.
        found.append(Step(f"git checkout {version}", _CHECKOUT_IF_THERE, {"BY_WANTED": version}))
    return found
