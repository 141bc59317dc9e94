"""A `python_script_scorer` with `user: root` that keeps the answer at a distance.

Root grades, and the answer runs as the user of the scenario, by a command that the room offers. Nothing of
it is imported here: it is handed its input, what it prints is read through a pipe, and the comparison and the
clock are on this side. It cannot end this process, read what is expected, or be equal to everything.
"""

import json
import os
import subprocess
import sys

CASES = [([3, 4, 5], 12), ([10], 10), ([-1, 1, 7], 7)]  # expected: 12
SECONDS = 4.0
MOST_BYTES = 64 * 1024
TIME_OVER = 124
ANSWER = """
import json, sys
sys.path.insert(0, ".")
from solution import total
print(json.dumps(total(json.loads(sys.argv[1]))))
"""


def answered(numbers: list[int]) -> object:
    """What the answer says, None if that makes no sense; raises TimeoutError if it takes too long."""
    graded = [os.environ["BENCHYARD_GRADED"], "--seconds", f"{SECONDS}"]
    command = [*graded, "python3", "-I", "-c", ANSWER, json.dumps(numbers)]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    if ran.returncode == TIME_OVER:
        raise TimeoutError
    try:
        return json.loads(ran.stdout[:MOST_BYTES]) if ran.returncode == 0 else None
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
