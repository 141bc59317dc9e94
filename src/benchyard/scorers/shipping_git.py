"""Answers that are changes of a git repository, drawn and applied by a script that other harnesses can run.

The files of the answer lie in the working directory, over the image's own `.git`: the difference is drawn,
and what grades it begins from the commit again.
"""

import shlex

from benchyard.scorers import git_answers, patch_chain

_NOTHING = '{"resolved": 0, "fail_to_pass": 0, "pass_to_pass": 0}'
"""The rewards of an answer that is none."""
_AROUND_SECONDS = 120
"""Of the time that there is, for what is done beside the tests."""
_SCRIPT = """\
alone() {{ env {values} "$@"; }}
nothing() {{ echo "$1"; echo '{nothing}' > "$logs/$name.out"; }}
alone git rev-parse --quiet --verify '{commit}^{{commit}}' > /dev/null || fail "$name: {commit} is not here"
alone git add --all --ignore-errors -- . 2>> "$logs/$name.err"
alone {diff} > "$work/drawn.diff" || fail "$name: the repository cannot be read"
alone git reset --quiet --hard HEAD && alone git clean -fdq || fail "$name: the repository cannot be reset"
if [ -s "$work/drawn.diff" ]; then
{graded}
else
    nothing "the answer changes nothing"
fi
cat "$logs/$name.out"
rewarded "$name" "$weight" resolved
"""


def script(commit: str, graded: str) -> str:
    """The lines that draw an answer into `$work/drawn.diff`, reset the repository, and have it graded.

    The lines in between are given: they print rewards to `$logs/$name.out`, or call `nothing` with a reason.
    """
    return _SCRIPT.format(
        values=" ".join(f"{name}={shlex.quote(value)}" for name, value in git_answers.ALONE.items()),
        nothing=_NOTHING,
        commit=commit,
        diff=shlex.join(("git", *git_answers.DIFF, "--cached", "HEAD")),
        graded=graded.rstrip("\n"),
    )


def seconds_for_tests(seconds: float) -> int:
    """What tests have of the time of their scorer."""
    return max(round(seconds) - _AROUND_SECONDS, _AROUND_SECONDS)


def applied() -> str:
    """The lines that apply `$work/drawn.diff` by the official ways in turn; `$applied` is how."""
    ways = " ".join(shlex.quote(shlex.join(way)) for way in patch_chain.WAYS)
    return f"""\
applied=
for way in {ways}; do
    if alone $way "$work/drawn.diff" >> "$logs/$name.err" 2>&1; then applied=$way; break; fi
    alone git checkout --quiet -- . ; alone git clean -fdq
done
"""
