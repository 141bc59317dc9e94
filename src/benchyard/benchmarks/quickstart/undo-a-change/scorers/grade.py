"""Asks the code that is graded, in a process of its own, and compares its answers here."""

import ctypes
import heapq
import json
import os
import random
import subprocess

ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # where all have one user, it cannot look into this process
GRADED = os.environ["BENCHYARD_GRADED"]  # runs the code as the user whose work it is, who cannot read this

ASK = """
import json, sys
sys.path.insert(0, ".")
cases = json.load(sys.stdin)
from jobs import Jobs

def answers(steps):
    queue = Jobs()
    for step in steps:
        if step is None:
            job = queue.take()
            yield job["name"] if job else None
        else:
            queue.add(step[0], {"name": step[1]})
        yield len(queue)

said = [list(answers(case)) for case in cases]
print()
print(json.dumps(said))
"""


def steps(chance):
    for number in range(400):
        yield None if chance.random() < 0.4 else [chance.randrange(5), f"job {number}"]
    yield from [None] * 200


def expected(asked):
    waiting, said = [], []
    for number, step in enumerate(asked):
        if step is None:
            said.append(heapq.heappop(waiting)[-1] if waiting else None)
        else:
            heapq.heappush(waiting, (step[0], number, step[1]))
        said.append(len(waiting))
    return said


def answers(cases):
    """What the code says to each list of steps: all by one process."""
    ran = subprocess.run(
        [GRADED, "--seconds", "30", "python3", "-I", "-c", ASK],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
    )
    try:
        return json.loads(ran.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError, RecursionError) as error:
        print(f"no answer: {error}")
        return None


cases = [list(steps(random.Random(seed))) for seed in range(3)]
is_right = answers(cases) == [expected(case) for case in cases]
print("the order is right" if is_right else "the order is wrong")
print(1.0 if is_right else 0.0)
