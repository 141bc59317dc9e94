"""A build's output: bounded and without secrets."""

from hypothesis import given
from hypothesis import strategies as st

from benchyard.images.builders.output import BuildOutput


def test_a_log_has_an_end() -> None:
    lines: list[str] = []
    output = BuildOutput(lines.append)
    for _ in range(70 * 64):
        output.line("x" * 16 * 1024)
    assert 60 * 1024**2 < sum(map(len, lines)) <= 64 * 1024**2
    assert lines[-1].startswith("[the log ends here")


def test_each_line_of_a_secret_is_hidden() -> None:
    lines: list[str] = []
    output = BuildOutput(lines.append, ["-----BEGIN KEY-----\nabcdef\nxy\n-----END KEY-----\n"])
    output.line("a abcdef b")
    output.line("xy is too short to be one by itself")
    assert lines == ["a *** b", "xy is too short to be one by itself"]


@given(st.lists(st.text(alphabet="abc*", min_size=1, max_size=5), min_size=1, max_size=4), st.data())
def test_no_secret_is_in_any_line(secrets: list[str], data: st.DataObject) -> None:
    pieces = st.sampled_from([*secrets, "x", " "])
    text = "".join(data.draw(st.lists(pieces, max_size=10)))
    lines: list[str] = []
    BuildOutput(lines.append, secrets).line(text)
    assert not any(secret in lines[0] for secret in secrets if "*" not in secret)


def test_where_the_engine_is_and_what_it_said_since() -> None:
    output = BuildOutput(lambda _line: None, (), {"localhost/x": "mine"})
    for line in ("STEP 1/2: FROM localhost/x", "said", "[2/3] STEP 2/2: RUN a", "one", "two"):
        output.line(line)
    assert (output.step, list(output.last)) == ((2, 2), ["one", "two"])
