"""The project's source as the rules of the house see it: files, modules, and who imports whom."""

import ast
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
PACKAGE = SRC / "benchyard"
SCENARIOS = (PACKAGE / "benchmarks/quickstart", PACKAGE / "benchmarks/template")


@dataclass(frozen=True)
class Module:
    """One Python file of the package."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def room(self) -> str:
        """The part of the house it lies in: `errors`, `devboxes`; empty for the package's own files."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else ""

    @property
    def where(self) -> str:
        return self.path.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Import:
    """A first-party import: the module it names, as far as it is one."""

    importer: Module
    target: str
    line: int

    @property
    def room(self) -> str:
        parts = self.target.split(".")
        return parts[1] if len(parts) > 1 else ""

    def __str__(self) -> str:
        return f"{self.importer.where}:{self.line} imports {self.target}"


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the package."""
    return tuple(_module(path) for path in sorted(PACKAGE.rglob("*.py")) if not is_scenario(path))


def is_scenario(path: Path) -> bool:
    """Whether a file belongs to a scenario that we ship: that is what is run, and no code of ours."""
    return any(folder in path.parents for folder in SCENARIOS)


def _module(path: Path) -> Module:
    parts = path.relative_to(SRC).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(name, path, ast.parse(path.read_text(), filename=str(path)))


def imports(module: Module) -> Iterator[Import]:
    """What a module imports from this package, at the top or inside functions."""
    names = {each.name for each in modules()}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            deeper = [f"{base}.{alias.name}" for alias in node.names]
            targets = [name if name in names else base for name in deeper]
        else:
            continue
        for target in dict.fromkeys(targets):
            if target.split(".")[0] == "benchyard":
                yield Import(module, target, node.lineno)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    package = module.name.split(".")
    if module.path.name != "__init__.py":
        package = package[:-1]
    package = package[: len(package) - node.level + 1]
    return ".".join([*package, *([node.module] if node.module else [])])


@cache
def tracked_files() -> tuple[Path, ...]:
    """Every file of the project that is, or would be, in version control."""
    git = ["git", "-c", "safe.directory=*"]
    command = [*git, "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(
        path for name in sorted(filter(None, listing.split("\0"))) if (path := ROOT / name).is_file()
    )


def python_files(*folders: str) -> list[Path]:
    """The project's Python files under some folders."""
    return [
        path
        for path in tracked_files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in folders and not is_scenario(path)
    ]


@cache
def exceptions() -> dict[str, dict[str, str]]:
    """The reasons written down for what breaks a rule: section -> place -> reason."""
    loaded: dict[str, dict[str, str]] = tomllib.loads((Path(__file__).parent / "exceptions.toml").read_text())
    return loaded


def unexcused(section: str, findings: dict[str, str]) -> list[str]:
    """The findings (place -> what is wrong) that no exception covers, and exceptions that cover nothing."""
    excused = exceptions().get(section, {})
    stale = [f"exceptions.toml [{section}] excuses {place!r}, which needs it no more" for place in excused]
    return [text for place, text in findings.items() if place not in excused] + [
        text for place, text in zip(excused, stale, strict=True) if place not in findings
    ]
