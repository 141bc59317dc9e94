"""Makes stand-ins for images of a registry: a Debian, with a Python of this machine if requested."""

import asyncio
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from benchyard.devboxes.base import Network
from benchyard.engine.agents import runtimes
from benchyard.engine.context import EngineContext
from benchyard.errors import ImageError, NotFound
from benchyard.images.builders.base import BuildLimits, BuildRecipe, Log
from benchyard.images.debian import make_debian
from benchyard.images.image import Image, ImageIdentity
from benchyard.images.stand_ins import DebianSuite, StandInPlan, fitting_suite
from benchyard.scorers.kits import pythons
from benchyard.scorers.kits.pythons import Python

PYTHON_PLACE = "/usr/local"
_OF_THE_SYSTEM = Path("/usr")
_LEFT_OUT = ("test", "tests", "idle_test", "__pycache__", "site-packages", "dist-packages", "*.a")
_MOST_TEXT_BYTES = 4 * 1024**2


async def find_python(minor: str) -> Python | None:
    """Return the newest Python of this version that can be moved; None if there is none.

    A Python from the system's own packages cannot be moved: it is patched for its place.
    """
    found = [each for each in await pythons.of_minor(minor) if each.modules.parents[1] != _OF_THE_SYSTEM]
    return max(found, key=lambda each: Version(each.version), default=None)


def write_python(python: Python, folder: Path) -> None:
    """Write a Python's files (blocks)."""
    prefix, name = python.modules.parents[1], python.modules.name
    ignore = shutil.ignore_patterns(*_LEFT_OUT)
    shutil.copytree(python.modules, folder / "lib" / name, ignore=ignore, ignore_dangling_symlinks=True)
    (folder / "lib" / name / "site-packages").mkdir()
    # Up to Python 3.7 the headers' folder has an `m` at its end.
    for headers in (prefix / "include" / name, prefix / "include" / f"{name}m"):
        if headers.is_dir():
            shutil.copytree(headers, folder / "include" / headers.name)
    for library in python.modules.parent.glob("libpython3*.so*"):
        shutil.copy2(library, folder / "lib" / library.name, follow_symlinks=False)
    (folder / "bin").mkdir()
    shutil.copy2(python.program, folder / "bin" / name)
    for link in ("python3", "python"):
        (folder / "bin" / link).symlink_to(name)
    for script in prefix.glob(f"bin/{name}-config"):
        shutil.copy2(script, folder / "bin" / script.name)
        (folder / "bin/python3-config").symlink_to(script.name)
    # Replace the old prefix in files that name the place of this Python.
    for place in ("bin/*-config", "lib/*/_sysconfigdata*.py", "lib/*/config-*/*", "lib/*/build-details.json"):
        for path in folder.glob(place):
            if path.is_file() and path.stat().st_size < _MOST_TEXT_BYTES:
                content = path.read_bytes()
                if not content.startswith(b"\x7fELF"):
                    path.write_bytes(content.replace(str(prefix).encode(), PYTHON_PLACE.encode()))


_BASE = "benchyard.local/suite"
_CERTIFICATES = Path("/usr/local/share/ca-certificates")
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_ALWAYS = ("ca-certificates", "netbase", "tzdata")
_FOR_PYTHON = (
    *("libbz2-1.0", "libdb5.3", "libexpat1", "libffi8", "libgdbm6", "liblzma5", "libncursesw6"),
    *("libreadline8", "libsqlite3-0", "libssl3", "libuuid1", "zlib1g"),
)
_NOT_SLIM = ("build-essential", "curl", "git", "libffi-dev", "libssl-dev", "pkg-config", "wget", "zlib1g-dev")
_OWN_PACKAGES = ("python3", "python3-dev", "python3-pip", "python3-venv")
_MAKE = """
RUN ldconfig && python3 -m ensurepip --default-pip && ln -sf pip3 /usr/local/bin/pip && python3 --version
"""
_USE_SUITES = """
RUN rm -f /usr/lib/python3*/EXTERNALLY-MANAGED && ln -s /usr/bin/python3 /usr/local/bin/python
"""


@dataclass(frozen=True)
class _Made:
    """A stand-in's plan, and the Debian and Python chosen for it."""

    plan: StandInPlan
    suite: DebianSuite
    python: Python | None

    @property
    def description(self) -> str:
        """Return a text for people."""
        version = self.python.version if self.python else self.suite.python
        return f"Debian {self.suite.name}" + (f" with Python {version}" if self.plan.python else "")


async def make(tools: EngineContext, plan: StandInPlan, identity: ImageIdentity, log: Log) -> Image:
    """Make a stand-in; takes minutes. Raises ImageError or BuildFailed with advice."""
    made = await _choose(plan)
    name = f"debian-{made.suite.name}"
    try:
        base = await tools.images.get(name)
    except NotFound:
        base = await make_debian(tools.images, made.suite.name, name)
    settings = tools.settings
    async with tools.images.scratch() as scratch:
        context = scratch / "context"
        await asyncio.to_thread(_write_context, context, made, await runtimes.registry_variables())
        recipe = BuildRecipe(
            dockerfile=_dockerfile(made),
            context=context,
            bases={_BASE: base.id},
            network=Network(settings.build_network),
            limits=BuildLimits(
                settings.build_seconds, settings.build_disk_bytes, settings.build_memory_bytes
            ),
        )
        marked = ImageIdentity(
            identity.name, identity.id, identity.request_hash, f"{plan.reference}: {made.description}"
        )
        return (await tools.builder.build(recipe, marked, log)).image


async def _choose(plan: StandInPlan) -> _Made:
    if plan.python is None:
        return _Made(plan, plan.suite, None)
    python = await find_python(plan.python)
    if python is not None:
        return _Made(plan, fitting_suite(plan, _libc()), python)
    if plan.suite.python == plan.python:
        return _Made(plan, plan.suite, None)
    raise ImageError(
        f"{plan.reference} needs Python {plan.python}, which neither the server nor Debian {plan.suite.name} "
        f"has: install it on the server with `uv python install {plan.python}`"
    )


def _libc() -> tuple[int, int]:
    """Return the version of this machine's C library."""
    version = os.confstr("CS_GNU_LIBC_VERSION") or ""
    major, _, minor = version.rpartition(" ")[2].partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)


def _dockerfile(made: _Made) -> str:
    packages = [*_ALWAYS]
    steps = ""
    if made.plan.python:
        packages += _FOR_PYTHON if made.python else _OWN_PACKAGES
        steps = f"COPY python/ {PYTHON_PLACE}/{_MAKE}" if made.python else _USE_SUITES
        steps += 'ENV LANG=C.UTF-8\nCMD ["python3"]\n'
    if not made.plan.is_slim:
        packages += _NOT_SLIM
    return f"""FROM {_BASE}
COPY files/ /
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \\
    {" ".join(packages)} && update-ca-certificates && rm -rf /var/lib/apt/lists/*
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
CMD ["bash"]
{steps}"""


def _write_context(context: Path, made: _Made, variables: dict[str, str]) -> None:
    """Write the build context (blocks)."""
    added = context / "files" / _CERTIFICATES.relative_to("/")
    added.mkdir(parents=True)
    certificates = sorted(_CERTIFICATES.glob("*.crt")) if _CERTIFICATES.is_dir() else []
    for certificate in certificates:
        shutil.copyfile(certificate, added / certificate.name)
    lines = [f"cert = {_BUNDLE}"] if certificates else []
    if index := variables.get("PIP_INDEX_URL"):
        lines.append(f"index-url = {index}")
    if more := variables.get("PIP_EXTRA_INDEX_URL"):
        lines.append(f"extra-index-url = {more}")
    if lines:
        (context / "files/etc").mkdir()
        (context / "files/etc/pip.conf").write_text("\n".join(("[global]", *lines, "")))
    if made.python is not None:
        write_python(made.python, context / "python")
