"""Answers that are changes of a git repository, drawn and applied by a script that other harnesses can run.

The files of the answer lie in the working directory, over the image's own `.git`: the difference is drawn,
and what grades it begins from the commit again.
"""

import shlex

from benchyard.scorers import git_answers, patch_chain

NOTHING = '{"resolved": 0, "fail_to_pass": 0, "pass_to_pass": 0}'
"""The rewards of an answer that is none."""


def drawn(commit: str) -> str:
    """The lines that draw the answer into `$work/drawn.diff`, and leave the repository as it was."""
    values = " ".join(f"{name}={shlex.quote(value)}" for name, value in git_answers.ALONE.items())
    diff = shlex.join(("git", *git_answers.DIFF, "--cached", "HEAD"))
    return f"""\
alone() {{ env {values} "$@"; }}
alone git rev-parse --quiet --verify '{commit}^{{commit}}' > /dev/null || fail "$name: {commit} is not here"
alone git add --all --ignore-errors -- . 2>> "$logs/$name.err"
alone {diff} > "$work/drawn.diff" || fail "$name: the repository cannot be read"
alone git reset --quiet --hard HEAD && alone git clean -fdq || fail "$name: the repository cannot be reset"
"""


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
