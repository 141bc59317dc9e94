"""Writes exercises in the form of the Polyglot benchmark's repository, of our own making."""

import json
from pathlib import Path

CATCH = "// stands in for the real one\n"


def write(root: Path, language: str, name: str, files: dict[str, str], **names: list[str]) -> Path:
    """An exercise with these files; `names` are the lists of its config."""
    folder = root / language / "exercises/practice" / name
    given = {
        ".docs/instructions.md": "# Instructions\n\nDouble the number.\n",
        ".meta/config.json": json.dumps({"files": names}),
        **files,
    }
    for path, content in given.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    return folder


def python(root: Path, name: str = "double") -> Path:
    """An exercise in Python."""
    return write(
        root,
        "python",
        name,
        {
            f"{name}.py": "def double(number):\n    pass\n",
            f"{name}_test.py": f"from {name} import double\n\ndef test_it():\n    assert double(21) == 42\n",
            ".meta/example.py": "def double(number):\n    return number * 2\n",
            ".docs/introduction.md": "# Introduction\n\nNumbers.\n",
            ".docs/instructions.append.md": "# Append\n\nAll of them.\n",
        },
        solution=[f"{name}.py"],
        test=[f"{name}_test.py"],
        example=[".meta/example.py"],
    )


def rust(root: Path, name: str = "double", crates: str = "") -> Path:
    """An exercise in Rust, whose example may need crates."""
    more = {".meta/Cargo-example.toml": f"[package]\n[dependencies]\n{crates}\n"} if crates else {}
    return write(
        root,
        "rust",
        name,
        {
            "src/lib.rs": "",
            "Cargo.toml": f'[package]\nname = "{name}"\nversion = "0.0.0"\n',
            f"tests/{name}.rs": "",
            ".meta/example.rs": "pub fn double() {}\n",
            **more,
        },
        solution=["src/lib.rs", "Cargo.toml"],
        test=[f"tests/{name}.rs"],
        example=[".meta/example.rs"],
    )


def java(root: Path, name: str = "double") -> Path:
    """An exercise in Java, whose example has classes beside the solution's."""
    main, example = "src/main/java", ".meta/src/reference/java"
    return write(
        root,
        "java",
        name,
        {
            f"{main}/Double.java": "class Double { static int of(int n) { return 0; } }\n",
            "src/test/java/DoubleTest.java": (
                "import org.junit.jupiter.api.*;\nclass DoubleTest {\n"
                "    @Test void it() { Assertions.assertEquals(42, Double.of(21)); }\n}\n"
            ),
            "build.gradle": "plugins { id 'java' }\n",
            f"{example}/Double.java": "class Double { static int of(int n) { return Twice.of(n); } }\n",
            f"{example}/Twice.java": "class Twice { static int of(int n) { return Unlisted.of(n, n); } }\n",
            f"{example}/Unlisted.java": "class Unlisted { static int of(int a, int b) { return a + b; } }\n",
            ".meta/Generator.java": "class Generator {}\n",
        },
        solution=[f"{main}/Double.java"],
        test=["src/test/java/DoubleTest.java"],
        example=[f"{example}/Double.java", f"{example}/Twice.java"],
    )


def cpp(root: Path, name: str = "double-it") -> Path:
    """An exercise in C++, which shares a file with all others."""
    plain = name.replace("-", "_")
    (root / "cpp/_shared").mkdir(parents=True, exist_ok=True)
    (root / "cpp/_shared/catch.hpp").write_text(CATCH)
    return write(
        root,
        "cpp",
        name,
        {
            f"{plain}.cpp": "",
            f"{plain}.h": "",
            f"{plain}_test.cpp": "",
            "CMakeLists.txt": "",
            "test/tests-main.cpp": "",
            ".meta/example.cpp": "// cpp\n",
            ".meta/example.h": "// h\n",
        },
        solution=[f"{plain}.cpp", f"{plain}.h"],
        test=[f"{plain}_test.cpp"],
        example=[".meta/example.cpp", ".meta/example.h"],
    )
