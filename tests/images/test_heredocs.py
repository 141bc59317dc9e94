"""Here-documents, rewritten: the shell gets the same text, and no line moves."""

import json
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchyard.errors import BuildFailed
from benchyard.images.dockerfile.heredocs import HeredocRewriter, RewriteRequest
from benchyard.images.dockerfile.parser import Dockerfile, parse_dockerfile

WORDS = st.text(alphabet="abc $\\'\"`#<>&|\t{}*é", max_size=12)
TEXTS = st.lists(WORDS.filter(lambda line: line.strip() != "EOF"), max_size=6)


def rewritten(text: str, folder: Path, **options: object) -> tuple[Dockerfile, list[str]]:
    """The Dockerfile and its lines after it was rewritten."""
    found = parse_dockerfile(text)
    request = RewriteRequest(folder, {}, **options)  # type: ignore[arg-type]
    changes = HeredocRewriter(found, request).run({"a": {"BASE": "of the base"}})
    return found, found.replaced(changes).split("\n")


def command(line: str) -> list[str]:
    found: list[str] = json.loads(line[line.index("[") :])
    return found


def shell(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, env={"PATH": "/bin:/usr/bin", "V": "value"}, check=False)
    return done.stdout.decode()


@settings(max_examples=40, deadline=None)
@given(TEXTS, st.booleans(), st.sampled_from(["EOF", "'EOF'", '"EOF"']))
def test_a_shell_gets_the_very_document(lines: list[str], chomped: bool, delimiter: str) -> None:
    dash = "-" if chomped else ""
    body = "".join(f"{line}\n" for line in lines)
    text = f"FROM a\nRUN cat <<{dash}{delimiter}\n{body}EOF\nRUN last\n"
    _, new = rewritten(text, Path("unused"))
    assert len(new) == len(text.split("\n")) + 1
    assert new[len(lines) + 3] == "RUN last"
    expected = shell(["/bin/sh", "-c", f"cat <<{dash}{delimiter}\n{body}EOF"])
    assert shell(command(new[1])) == expected


@settings(max_examples=40, deadline=None)
@given(TEXTS)
def test_quoted_documents_are_copied_as_they_are(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        body = "".join(f"{line}\n" for line in lines)
        text = f"FROM a\nCOPY <<'EOF' /x\n{body}EOF\nUSER 1\n"
        _, new = rewritten(text, Path(folder))
        assert new[1] == "COPY --from=benchyard-heredocs 1/EOF /x"
        assert (Path(folder) / "1/EOF").read_bytes() == body.encode()
        assert new[len(lines) + 3] == "USER 1"


def test_several_documents_and_files_in_one_instruction(tmp_path: Path) -> None:
    text = "FROM a\nCOPY --chown=1 <<one plain.txt <<-two /to/\n1\none\n\t2\n\ttwo\nUSER 1\n"
    _, new = rewritten(text, tmp_path)
    assert new[1] == "COPY --chown=1 plain.txt /to/"
    assert new[2] == "COPY --chown=1 --from=benchyard-heredocs 1/one 2/two /to/"
    assert (tmp_path / "2/two").read_text() == "2\n"
    assert new[6] == "USER 1"


def test_variables_come_from_where_an_engine_takes_them(tmp_path: Path) -> None:
    text = """ARG OUT=global
FROM a AS first
ARG OUT
ARG NEXT=$OUT-2
ENV X=1 Y="a b"
ENV OLD style value
FROM first
COPY <<EOF /x
$BASE|$X|$Y|$OLD|$OUT|$NEXT
EOF
"""
    rewritten(text, tmp_path)
    assert (tmp_path / "1/EOF").read_text() == "of the base|1|a b|style value||\n"


def test_the_shell_is_the_one_that_was_set() -> None:
    _, new = rewritten('FROM a\nSHELL ["/bin/bash", "-ec"]\nRUN <<EOF\nx\nEOF\n', Path("unused"))
    assert command(new[2]) == ["/bin/bash", "-ec", "x\n"]


def test_secrets_reach_both_forms_of_run() -> None:
    text = 'FROM a\nRUN echo "$T" \\\n  && true\nRUN ["prog", "arg"]\nRUN --mount=type=cache,target=/c x\n'
    _, new = rewritten(text, Path("unused"), secrets=("T",))
    mount = "--mount=type=secret,id=T,mode=0444"
    assert new[1].startswith(f"RUN {mount} [")
    assert command(new[1])[3:] == ["sh", "/bin/sh", "-c", 'echo "$T"   && true']
    assert command(new[3])[3:] == ["sh", "prog", "arg"]
    assert new[4].startswith(f"RUN --mount=type=cache,target=/c {mount} [")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("COPY <<a b /x", "must be a folder"),
        ("COPY <<a/b /x", "cannot be the name of a file"),
        ("COPY --from=other <<a /x", "cannot be copied --from"),
    ],
)
def test_invalid_copy_is_refused(line: str, problem: str, tmp_path: Path) -> None:
    delimiter = line.split("<<")[1].split()[0]
    with pytest.raises(BuildFailed, match=rf"Dockerfile line 2: .*{problem}"):
        rewritten(f"FROM a\n{line}\nx\n{delimiter}\n", tmp_path)
