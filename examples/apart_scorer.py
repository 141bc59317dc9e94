"""A `python_script_scorer` that keeps the answer at a distance.

The answer runs as another user, in a process of its own. Nothing of it is imported here: it is handed its
input, what it prints is read through a pipe, and the comparison and the clock are on this side. It cannot end
this process, read what is expected, or be equal to everything.
"""

import json
import subprocess
import sys

CASES = [([3, 4, 5], 12), ([10], 10), ([-1, 1, 7], 7)]  # expected: 12
SECONDS = 4.0
MOST_BYTES = 64 * 1024
KILLED = (137, -9)
AS_ANOTHER = ("sudo", "-n", "-u", "nobody", "--", "setpriv", "--no-new-privs", "--", "timeout", "-s", "KILL")
ANSWER = """
import json, sys
sys.path.insert(0, ".")
from solution import total
print(json.dumps(total(json.loads(sys.argv[1]))))
"""


def answered(numbers: list[int]) -> object:
    """What the answer says, None if that makes no sense; raises TimeoutError if it takes too long."""
    command = [*AS_ANOTHER, f"{SECONDS}", "python3", "-I", "-c", ANSWER, json.dumps(numbers)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            printed, _ = process.communicate(timeout=SECONDS + 1)
        except subprocess.TimeoutExpired:
            process.kill()
            raise TimeoutError from None
    if process.returncode in KILLED:
        raise TimeoutError
    try:
        return json.loads(printed[:MOST_BYTES]) if process.returncode == 0 else None
    except ValueError:
        return None


def main() -> None:
    """Print the share of cases that are right; an answer that takes too long is not asked again."""
    right = 0
    try:
        for numbers, expected in CASES:
            right += answered(numbers) == expected
    except TimeoutError:
        sys.stdout.write(f"took longer than {SECONDS} s\n")
    sys.stdout.write(f"{right} of {len(CASES)} cases are right\nscore={right / len(CASES)}\n")


if __name__ == "__main__":
    main()
