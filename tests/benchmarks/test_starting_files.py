"""Files that launch commands carry: written by a real shell, read back, and never mistaken."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchyard.benchmarks.starting_files import MOST_BYTES, StartingFile, command, parsed
from benchyard.errors import TooLarge

PATHS = st.lists(
    st.text(
        st.characters(exclude_characters="/\0", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20
    ),
    min_size=1,
    max_size=3,
).map("/".join)


@given(PATHS, st.binary(max_size=300), st.sampled_from([0o644, 0o755]), st.sampled_from([None, "/srv/a b"]))
def test_a_command_is_read_back(path: str, content: bytes, mode: int, directory: str | None) -> None:
    file = StartingFile(path, content, mode)
    assert parsed(command(file, directory), directory) == file


@pytest.mark.parametrize("name", ["a.txt", "deep/er/it's $HOME `x`.txt", "-n", 'ü "q"'])
@pytest.mark.parametrize("content", [b"", b"\0\xff\n", b"x" * 10_000, b"END\n"])
def test_a_shell_writes_it(tmp_path: Path, name: str, content: bytes) -> None:
    text = command(StartingFile(name, content, 0o755), str(tmp_path))
    subprocess.run(["sh", "-c", text], check=True, cwd="/")
    assert (tmp_path / name).read_bytes() == content
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    "text",
    [
        "make prepare",
        command(StartingFile("a", b"x"), None) + "\n",
        command(StartingFile("a", b"x"), None).replace("p=a;", "p=a b;"),
        command(StartingFile("a", b"x"), None).replace("p=a;", "p=$(id);"),
        command(StartingFile("a", b"x"), None).replace("p=a;", "p='a;"),
        command(StartingFile("a", b"x"), None).replace("eA==", "eA="),
        command(StartingFile("a", b"x"), None).replace("eA==", "e\nA=="),
        "echo hello; " + command(StartingFile("a", b"x"), None),
    ],
)
def test_other_commands_are_left_alone(text: str) -> None:
    assert parsed(text, None) is None


def test_a_file_that_is_too_large_is_refused_with_what_to_do() -> None:
    with pytest.raises(TooLarge, match="dockerfile"):
        command(StartingFile("a", b"x" * (MOST_BYTES + 1)), None)
