"""Small exercises of six languages, with an answer in two files and what could be planted beside one."""

from dataclasses import dataclass
from typing import Any

from benchyard.models.scoring.attachments import PackedFile, pack_files

JS_PACKAGE = '{"name": "double", "private": true, "scripts": {"test": "jest ./*"}}'
JS_BABEL = "module.exports = { presets: ['@exercism/babel-preset-javascript'] };\n"


@dataclass(frozen=True)
class Exercise:
    """One exercise, and answers to it."""

    language: str
    files: dict[str, str]
    solution: str
    tests: tuple[str, ...]
    good: dict[str, str]
    """A right answer in two files, none of which is one alone."""
    planted: dict[str, str]
    """What would make wrong answers pass, or right ones fail, if tools were to read it."""
    data: dict[str, str]
    """A right answer that reads, embeds or includes a file which is no source."""

    @property
    def fields(self) -> dict[str, Any]:
        return {
            "language": self.language,
            "exercise": "double",
            "solution": [self.solution],
            "tests": list(self.tests),
            "tools": "server",
        }

    @property
    def attachment(self) -> bytes:
        return pack_files({path: PackedFile(text.encode()) for path, text in self.files.items()})


_NO_TEST = "def test_it():\n    pass\n"
_LEAVE = "import os\nos._exit(0)\n"

_ALL = (
    Exercise(
        "python",
        {
            "double.py": "def double(number):\n    pass\n",
            "double_test.py": (
                "import unittest\nfrom double import double\n\n"
                "class DoubleTest(unittest.TestCase):\n"
                "    def test_it(self):\n        self.assertEqual(double(21), 42)\n"
            ),
        },
        "double.py",
        ("double_test.py",),
        {
            "double.py": "from parts.twice import twice\n\ndef double(number):\n    return twice(number)\n",
            "parts/twice.py": "def twice(number):\n    return 2 * number\n",
        },
        {
            "double_test.py": _NO_TEST,
            "test_more.py": "def test_it():\n    assert False\n",
            "parts/conftest.py": _LEAVE,
            "conftest.py": _LEAVE,
            "pytest.py": "def console_main(): return 0\n",
            "_pytest/__init__.py": _LEAVE,
            "unittest.py": _LEAVE,
            "difflib.py": _LEAVE,
            "sitecustomize.py": _LEAVE,
            "pytest.ini": "[pytest]\naddopts = --collect-only\n",
            "tox.ini": "[pytest]\naddopts = --collect-only\n",
            "setup.cfg": "[tool:pytest]\naddopts = --collect-only\n",
            "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--collect-only"\n',
            "x.dist-info/entry_points.txt": "[pytest11]\nx = parts.evil\n",
            "x.dist-info/METADATA": "Name: x\nVersion: 1\n",
            "test_more.txt": ">>> 1\n2\n",
            "requirements-dev.txt": "nothing\n",
        },
        {
            "double.py": (
                "import json, pathlib\nfrom graphlib import same\n\n"
                "FACTOR = json.loads((pathlib.Path(__file__).parent / 'parts/words.json').read_text())\n\n"
                "def double(number):\n    return same(FACTOR['twice'] * number)\n"
            ),
            "graphlib.py": "def same(number):\n    return number\n",
            "parts/words.json": '{"twice": 2}\n',
        },
    ),
    Exercise(
        "go",
        {
            "go.mod": "module double\n\ngo 1.18\n",
            "double.go": "package double\n",
            "double_test.go": (
                'package double\n\nimport "testing"\n\nfunc TestIt(t *testing.T) {\n'
                '\tif Double(21) != 42 {\n\t\tt.Fatal("wrong")\n\t}\n}\n'
            ),
        },
        "double.go",
        ("double_test.go",),
        {
            "double.go": "package double\n\nfunc Double(n int) int { return twice(n) }\n",
            "impl.go": "package double\n\nfunc twice(n int) int { return 2 * n }\n",
        },
        {
            "double_test.go": 'package double\n\nimport "testing"\n\nfunc TestIt(t *testing.T) {}\n',
            "main_test.go": (
                'package double\n\nimport (\n\t"os"\n\t"testing"\n)\n\n'
                "func TestMain(m *testing.M) { os.Exit(0) }\n"
            ),
            "go.mod": "module double\n\ngo 1.18\n\nreplace testing => ./vendor/testing\n",
            "go.work": "go 1.18\nuse ./nowhere\n",
            "vendor/testing/testing.go": "package testing\n",
        },
        {
            "double.go": (
                'package double\n\nimport (\n\t_ "embed"\n\t"strconv"\n)\n\n'
                "//go:embed data/factor.txt\nvar factor string\n\n"
                "func Double(n int) int {\n\ttwo, _ := strconv.Atoi(factor)\n\treturn two * n\n}\n"
            ),
            "data/factor.txt": "2",
        },
    ),
    Exercise(
        "rust",
        {
            "Cargo.toml": '[package]\nname = "double"\nversion = "0.1.0"\nedition = "2021"\n',
            "src/lib.rs": "pub fn double(_: i32) -> i32 { 0 }\n",
            "tests/double.rs": "use double::*;\n\n#[test]\nfn it() { assert_eq!(double(21), 42); }\n",
        },
        "src/lib.rs",
        ("tests/double.rs",),
        {
            "src/lib.rs": "mod twice;\npub fn double(n: i32) -> i32 { twice::twice(n) }\n",
            "src/twice.rs": "pub fn twice(n: i32) -> i32 { 2 * n }\n",
        },
        {
            "Cargo.toml": '[package]\nname = "double"\nversion = "0.1.0"\nautotests = false\n',
            "tests/double.rs": "#[test]\nfn it() {}\n",
            "tests/more.rs": "#[test]\nfn more() { panic!() }\n",
            "examples/more.rs": "fn main() { nothing() }\n",
            "build.rs": 'fn main() { panic!("built") }\n',
            ".cargo/config.toml": '[build]\nrustc = "/bin/true"\n',
            "rust-toolchain.toml": '[toolchain]\nchannel = "nowhere"\n',
        },
        {
            "src/lib.rs": (
                'const FACTOR: &str = include_str!("factor.txt");\n'
                "pub fn double(n: i32) -> i32 { FACTOR.trim().parse::<i32>().unwrap() * n }\n"
            ),
            "src/factor.txt": "2\n",
        },
    ),
    Exercise(
        "javascript",
        {
            "package.json": JS_PACKAGE,
            "babel.config.js": JS_BABEL,
            ".npmrc": "audit=false\n",
            "double.js": "export const double = () => { throw new Error('no'); };\n",
            "double.spec.js": (
                "import { double } from './double';\n\ntest('it', () => { expect(double(21)).toBe(42); });\n"
            ),
        },
        "double.js",
        ("double.spec.js",),
        {
            "double.js": "import { twice } from './parts/twice';\n\nexport const double = (n) => twice(n);\n",
            "parts/twice.js": "export const twice = (n) => 2 * n;\n",
        },
        {
            "double.spec.js": "test('it', () => {});\n",
            "more.test.js": "test('more', () => { throw new Error('no'); });\n",
            "__tests__/more.js": "test('more', () => { throw new Error('no'); });\n",
            "package.json": JS_PACKAGE.replace("jest ./*", "echo 'Tests: 1 passed, 1 total'"),
            "jest.config.js": "module.exports = { testMatch: [] };\n",
            "babel.config.js": "process.exit(0);\n",
            "babel.config.cjs": "process.exit(0);\n",
            "parts/package.json": '{"type": "commonjs", "exports": {}}',
            ".npmrc": "script-shell=/bin/true\n",
            ".babelrc.js": "process.exit(0);\n",
            "node_modules/.bin/jest": "#!/bin/sh\nexit 0\n",
            "package-lock.json": "{",
            "tsconfig.json": "{",
            "babel.config.json": '{"presets": ["nothing"]}',
            "jest.config.json": '{"testMatch": []}',
        },
        {
            "double.js": (
                "const { twice } = require('./parts/data.json');\n\nexport const double = (n) => twice * n;\n"
            ),
            "parts/data.json": '{"twice": 2}\n',
        },
    ),
    Exercise(
        "java",
        {
            "build.gradle": "plugins { id 'java' }\n",
            "src/main/java/Double.java": "class Doubled { int of(int n) { return 0; } }\n",
            "src/test/java/DoubledTest.java": (
                "import static org.assertj.core.api.Assertions.assertThat;\n"
                "import org.junit.jupiter.api.Test;\n"
                "public class DoubledTest {\n"
                "    @Test public void it() { assertThat(new Doubled().of(21)).isEqualTo(42); }\n}\n"
            ),
        },
        "src/main/java/Double.java",
        ("src/test/java/DoubledTest.java",),
        {
            "src/main/java/Double.java": "class Doubled { int of(int n) { return new Twice().of(n); } }\n",
            "src/main/java/Twice.java": "class Twice { int of(int n) { return 2 * n; } }\n",
        },
        {
            "build.gradle": "test { enabled = false }\n",
            "src/test/java/DoubledTest.java": "class DoubledTest {}\n",
            "src/test/java/MoreTest.java": "class MoreTest { int broken }\n",
            "src/main/java/org/junit/platform/console/ConsoleLauncher.java": (
                "package org.junit.platform.console;\npublic class ConsoleLauncher {\n"
                "    public static void main(String[] a) {\n"
                '        System.out.println("[         1 tests successful      ]");\n    }\n}\n'
            ),
            "src/main/resources/META-INF/services/org.junit.platform.engine.TestEngine": "Evil\n",
            "gradle/wrapper/gradle-wrapper.properties": "distributionUrl=nowhere\n",
            "src/main/resources/junit-platform.properties": "junit.jupiter.conditions.deactivate=none\n",
        },
        {
            "src/main/java/Double.java": (
                "class Doubled {\n    int of(int n) {\n"
                '        var text = Doubled.class.getResourceAsStream("/data/factor.txt");\n'
                "        return new java.util.Scanner(text).nextInt() * n;\n    }\n}\n"
            ),
            "src/main/resources/data/factor.txt": "2\n",
        },
    ),
    Exercise(
        "cpp",
        {
            "CMakeLists.txt": (
                "cmake_minimum_required(VERSION 3.5.1)\nproject(double CXX)\n"
                "add_executable(double double_test.cpp double.cpp test/tests-main.cpp)\n"
                "add_custom_target(test_double ALL DEPENDS double COMMAND double)\n"
            ),
            "double.h": "int doubled(int);\n",
            "double.cpp": '#include "double.h"\nint doubled(int) { return 0; }\n',
            "double_test.cpp": (
                '#include "double.h"\n#define TEST_CASE(name) bool passes()\n'
                'TEST_CASE("doubles") { return doubled(21) == 42; }\n'
                '/*\nTEST_CASE("later") { return true; }\n*/\n'
            ),
            "test/tests-main.cpp": (
                "#include <cstdio>\nbool passes();\n"
                "int main() {\n    if (!passes()) return 1;\n"
                '    std::puts("All tests passed (1 assertion in 1 test case)");\n}\n'
            ),
        },
        "double.cpp",
        ("double_test.cpp", "test/tests-main.cpp"),
        {
            "double.cpp": '#include "twice.hpp"\nint doubled(int n) { return twice(n); }\n',
            "twice.hpp": "inline int twice(int n) { return 2 * n; }\n",
        },
        {
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.5.1)\nproject(double NONE)\n",
            "double_test.cpp": "bool passes() { return true; }\n",
            "test/tests-main.cpp": (
                '#include <cstdio>\nint main() { std::puts("All tests passed (1 assertion)"); }\n'
            ),
            "build/CMakeCache.txt": "CMAKE_CXX_COMPILER:FILEPATH=/bin/true\n",
            "CMakeUserPresets.json": "{",
            "parts/CMakeLists.txt": "message(FATAL_ERROR no)\n",
        },
        {
            "double.cpp": (
                '#include "double.h"\nstatic const int factors[] = {\n#include "table.inc"\n};\n'
                "int doubled(int n) { return factors[1] * n; }\n"
            ),
            "table.inc": "1,\n2,\n",
        },
    ),
)
EXERCISES = {each.language: each for each in _ALL}
