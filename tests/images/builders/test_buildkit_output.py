"""What BuildKit says, of versions that are not on this machine too."""

import pytest

from benchyard.images.builders.buildkit_output import BuildKitProgress
from benchyard.images.builders.output import BuildOutput
from benchyard.images.dockerfile.parser import parse_dockerfile

DOCKERFILE = """FROM base AS build
RUN make
FROM base
WORKDIR /srv
COPY --from=build /made /made
RUN first && \\
  second
"""


def heard(text: str, dockerfile: str = DOCKERFILE) -> tuple[list[str], BuildKitProgress]:
    lines: list[str] = []
    progress = BuildKitProgress(BuildOutput(lines.append, ["hidden"]), parse_dockerfile(dockerfile), {})
    for line in text.splitlines():
        progress.line(line)
    return lines, progress


NEWER = """#0 building with "default" instance using docker driver
#1 [internal] load build definition from Dockerfile
#1 DONE 0.0s
#5 [build 1/2] FROM base
#5 CACHED
#6 [build 2/2] RUN make
#6 0.101 compiling
#7 [stage-1 2/4] WORKDIR /srv
#7 DONE 0.1s
#6 0.202 the word is hidden
#6 DONE 0.3s
#9 [stage-1 4/4] RUN first &&   second
#9 0.300
#9 0.301 it is hidden
#9 ERROR: process "/bin/sh -c first &&   second" did not complete successfully: exit code: 7
------
 > [stage-1 4/4] RUN first &&   second:
0.301 it is hidden
------
Dockerfile:6
--------------------
   5 |     COPY --from=build /made /made
   6 | >>> RUN first && \\
--------------------
ERROR: failed to solve: process "/bin/sh -c first &&   second" did not complete successfully: exit code: 7
"""


def test_steps_are_reported_with_what_they_print() -> None:
    lines, progress = heard(NEWER)
    assert lines == [
        "[build] STEP 1/2: FROM base AS build",
        "--> Using cache",
        "[build] STEP 2/2: RUN make",
        "compiling",
        "[stage-1] STEP 2/4: WORKDIR /srv",
        "[build] STEP 2/2: RUN make",
        "the word is ***",
        "[stage-1] STEP 4/4: RUN first &&   second",
        "",
        "it is ***",
    ]
    told, instruction = progress.failure(1)
    assert instruction is not None
    assert (instruction.first, told.exit_status, told.lines) == (6, 7, ["", "it is ***"])


@pytest.mark.parametrize(
    ("text", "problem", "line"),
    [
        (
            "ERROR: failed to solve: dockerfile parse error on line 5: unknown flag: --x",
            "unknown flag: --x",
            5,
        ),
        (
            "failed to solve with frontend dockerfile.v0: failed to create LLB definition: "
            "dockerfile parse error line 7: nothing",
            "nothing",
            6,
        ),
        (
            "#8 [stage-1 3/4] COPY --from=build /made /made\n"
            "#6 ERROR: failed to solve: Canceled: context canceled\n"
            '#8 ERROR: failed to calculate checksum of ref a::b: "/made": not found',
            "/made: no such file in the context",
            5,
        ),
        ("#8 [stage-1 9/9] RUN what is this\n#8 ERROR: no", "no", None),
        ("", "the engine ended with status 1", None),
    ],
)
def test_problem_and_line_are_found(text: str, problem: str, line: int | None) -> None:
    told, instruction = heard(text)[1].failure(1)
    assert (told.problem, instruction.first if instruction else None) == (problem, line)


def test_a_command_of_several_lines_is_one_error() -> None:
    text = (
        '#5 [2/2] RUN <<EOF\n#5 ERROR: process "one\n#two\nthree" failed: exit code: 3\n------\nexit code: 4'
    )
    told, instruction = heard(text, "FROM base\nRUN <<EOF\none\nEOF\n")[1].failure(1)
    assert told.exit_status == 3
    assert instruction is not None
    assert instruction.first == 2
