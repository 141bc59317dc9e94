"""Output of scorers for an agent: the same for the same mistakes, and not too long."""

import marshal
import re
from typing import BinaryIO

MOST_BYTES = 64 * 1024
"""Most bytes of output: the end is kept, since test programs sum up there."""
_CUT = "[... cut ...]\n"
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_DURATION = r"\d{1,12}(?:[.,]\d{1,12})?\s?(?:ns|[uµμ]s|ms|milliseconds?|s|secs?|seconds?|min|minutes?)\b"
_TIMINGS = (
    # Lines with nothing but a time: `Time:  1.5 s, estimated 2 s`.
    re.compile(rf"^[ \t]{{0,8}}(?:time|duration|elapsed):[ \t]{{1,16}}{_DURATION}.*\n?", re.I | re.M),
    # `(0.02s)`, `[ 12 ms ]`, with the spaces before it.
    re.compile(rf"\s{{0,8}}[(\[]\s{{0,8}}(?:in |took )?{_DURATION}\s{{0,8}}[)\]]"),
    # `in 0.12s`, `took 3 ms`, `after 1.2 seconds`.
    re.compile(rf"\s{{0,8}}\b(?:in|took|after)\s{{1,8}}{_DURATION}", re.I),
    # `ok  example/pkg  0.004s` at the end of a line.
    re.compile(rf"[ \t]{{1,8}}{_DURATION}[ \t]{{0,8}}$", re.M),
)
_TEMPORARY = re.compile(
    r"/(?:tmp|var/tmp|dev/shm|run/benchyard-[0-9a-f]+)(?:/[A-Za-z0-9._+@%~-]+)*/(?=[A-Za-z0-9._+@%~-])"
)


_CAPTURED = (
    # Pytest's section with the output of a test, up to the next heading.
    (
        re.compile(r"(?<!-)-{3,} Captured \w{1,10} \w{1,10} -{3,}"),
        re.compile(r"(?<!-)-{3,} Captured|(?<!_)_{3,} |(?<!=)={3,}"),
    ),
    # Rust's section of a test's output, up to the line with its panic.
    (re.compile(r"---- \S{1,300} stdout ----"), re.compile(r"thread '|failures:|---- |test result:")),
    # Jest's lines of console output, up to the place in the code.
    (re.compile(r" {2}console\.\w{1,20}"), re.compile(r" {6}at |(?=\S)")),
)
_LEFT_OUT = "[what was printed is left out]"


def clean_outputs(content: BinaryIO) -> bytes:
    """Return the cleaned outputs of several scorers, for a worker: reads a directory, names and outputs."""
    folder, outputs = marshal.load(content)  # noqa: S302  (written by the server itself)
    texts = [(name, runner_report(clean_output(output, folder))) for name, output in outputs]
    if len(texts) == 1:
        return texts[0][1].encode(errors="replace")
    return clean_output("\n\n".join(f"## {name}\n\n{text}" for name, text in texts)).encode(errors="replace")


def runner_report(output: str) -> str:
    """Return a test runner's report without output of the graded code, as far as it separates the two.

    The graded code can read tests that are hidden from the agent: its output must not carry them into the
    agent's next prompt.
    """
    kept: list[str] = []
    until: re.Pattern[str] | None = None
    for line in output.split("\n"):
        if until is not None:
            if not until.match(line):
                continue
            until = None
        begun = next((end for start, end in _CAPTURED if start.fullmatch(line.rstrip())), None)
        if begun is None:
            kept.append(line)
        else:
            until = begun
            kept += [line, _LEFT_OUT]
    return "\n".join(kept)


def clean_output(output: str, working_directory: str = "") -> str:
    """Return output without timings, colours and paths of this run; at most its last 64 KiB."""
    text = _ESCAPES.sub("", output).replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROLS.sub("", text)
    if len(working_directory) > 1:
        text = re.sub(re.escape(working_directory.rstrip("/")) + r"/(?=[^\s/])", "", text)
    text = _TEMPORARY.sub("", text)
    for timing in _TIMINGS:
        text = timing.sub("", text)
    return _end(text.strip("\n"), MOST_BYTES)


def _end(text: str, most: int) -> str:
    data = text.encode(errors="replace")
    if len(data) <= most:
        return text
    kept = data[-most + len(_CUT) :].decode(errors="ignore")
    return _CUT + (kept.partition("\n")[2] or kept)
