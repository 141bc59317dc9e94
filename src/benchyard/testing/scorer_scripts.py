"""Scripts that print scores, and what else scripts do, in the languages that scorers take."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class LanguageScripts:
    """What each of these is in one language."""

    reads: str
    """Prints the score that stands in the file `answer`."""
    looks_at_context: str
    """Prints 1.0 if the environment and the file have the facts of the run."""
    programs: Mapping[str, str]


SCORES = {
    "bare": 0.7,
    "named": 0.7,
    "scientific": 0.25,
    "one": 1.0,
    "zero": 0.0,
    "spaces": 0.5,
    "carriage returns": 0.5,
    "empty lines after it": 0.5,
    "exits with 1": 1.0,
    "bytes before it": 0.5,
    "no newline": 0.5,
    "a daemon that prints later": 0.25,
}
"""Name of a program -> the score it prints."""

UNUSABLE = {
    "nothing": "printed nothing",
    "empty lines": "printed nothing",
    "closed output": "printed nothing",
    "nan": "'nan'",
    "infinite": "'inf'",
    "seven": "'7'",
    "minus one": "'-1'",
    "a little more than one": "'1.0000001'",
    "words": "'all is well'",
    "a word after it": "'0.5 points'",
    "a long line": "'xxxx",
    "bytes": "\ufffd",
}
"""Name of a program -> what is said of its last line."""

FAILING = {
    "hangs": "scorer_timeout_sec",
    "hangs after a score": "scorer_timeout_sec",
    "killed": "signal 9",
    "crashes after a score": "signal 11",
}
"""Name of a program -> why it has no score."""

BASH = LanguageScripts(
    reads="cat answer\n",
    looks_at_context="""
[[ $RL_SCORER_CONTEXT == "$RL_TEST_CONTEXT" ]] &&
[[ $RL_SCORER_CONTEXT == *'"benchyard":{"problem_statement":'* ]] &&
[[ $(cat "$BENCHYARD_SCORER_CONTEXT_FILE") == "$RL_SCORER_CONTEXT" ]] && echo 1.0
""",
    programs={
        "bare": "echo 0.7",
        "named": "echo begin; echo score=0.7",
        "scientific": "echo 2.5e-1",
        "one": "echo 1",
        "zero": "echo -0.0",
        "spaces": "printf ' \\t score = 0.5 \\t\\n'",
        "carriage returns": "printf 'a\\r\\n0.5\\r\\n'",
        "empty lines after it": "printf '0.5\\n\\n \\n\\t\\n'",
        "exits with 1": "echo 1.0; exit 1",
        "bytes before it": "printf '\\377\\000\\n0.5\\n'",
        "no newline": "printf 0.5",
        "a daemon that prints later": "(setsid bash -c 'sleep 1; echo 1.0' &) ; echo 0.25",
        "nothing": "true",
        "empty lines": "printf '\\n \\n'",
        "closed output": "exec >&-; echo 1.0",
        "nan": "echo nan",
        "infinite": "echo inf",
        "seven": "echo 7",
        "minus one": "echo -1",
        "a little more than one": "echo 1.0000001",
        "words": "echo 1.0; echo all is well",
        "a word after it": "echo 0.5 points",
        "a long line": "head -c 70000 /dev/zero | tr '\\0' x; echo 1.0",
        "bytes": "printf '1.0\\377\\n'",
        "hangs": "sleep 600",
        "hangs after a score": "echo 1.0; sleep 600",
        "killed": "kill -9 $$",
        "crashes after a score": "echo 1.0; kill -SEGV $$",
        "40 MB": "head -c 40000000 /dev/zero | tr '\\0' x; echo; echo 0.25",
    },
)

PYTHON = LanguageScripts(
    reads="print(open('answer').read())\n",
    looks_at_context="""
import json, os
whole = os.environ["RL_SCORER_CONTEXT"]
same = whole == os.environ["RL_TEST_CONTEXT"] == open(os.environ["BENCHYARD_SCORER_CONTEXT_FILE"]).read()
print(float(same and json.loads(whole)["benchyard"]["problem_statement"].startswith("Make the tests pass.")))
""",
    programs={
        "bare": "print(0.7)",
        "named": "print('begin'); print('score=0.7')",
        "scientific": "print('2.5e-1')",
        "one": "print(1)",
        "zero": "print(-0.0)",
        "spaces": "print(' \\t score = 0.5 \\t')",
        "carriage returns": "print('a\\r\\n0.5\\r')",
        "empty lines after it": "print('0.5\\n\\n \\n\\t')",
        "exits with 1": "print(1.0); raise SystemExit(1)",
        "bytes before it": "import os; os.write(1, b'\\xff\\0\\n0.5\\n')",
        "no newline": "print(0.5, end='')",
        "a daemon that prints later": (
            "import os, time\nprint(0.25, flush=True)\nif os.fork() == 0:\n"
            "    os.setsid(); time.sleep(1); print(1.0, flush=True); os._exit(0)\n"
        ),
        "nothing": "pass",
        "empty lines": "print('\\n \\n')",
        "closed output": "import os; os.close(1); os.open('/dev/null', os.O_WRONLY); print(1.0)",
        "nan": "print(float('nan'))",
        "infinite": "print(float('inf'))",
        "seven": "print(7)",
        "minus one": "print(-1)",
        "a little more than one": "print(1.0000001)",
        "words": "print(1.0); print('all is well')",
        "a word after it": "print('0.5 points')",
        "a long line": "print('x' * 70000 + '1.0')",
        "bytes": "import os; os.write(1, b'1.0\\xff\\n')",
        "hangs": "import time; time.sleep(600)",
        "hangs after a score": "import time; print(1.0, flush=True); time.sleep(600)",
        "killed": "import os; os.kill(os.getpid(), 9)",
        "crashes after a score": "import os; print(1.0, flush=True); os.kill(os.getpid(), 11)",
        "40 MB": "print('x' * 40_000_000); print(0.25)",
    },
)
