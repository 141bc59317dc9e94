# The share of lines of a file that are as they must be, each in its place; a file of another length loses for
# every line too many. Parameters: `file`, and `lines`.
exec python3 -I -S - <<'PROGRAM'
import json, os

wanted = json.loads(os.environ["RL_SCORER_CONTEXT"])
try:
    with open(wanted["file"], "rb") as file:
        lines = file.read(1_000_000).decode(errors="replace").splitlines()
except OSError as error:
    print(error)
    lines = []
right = sum(said == line for said, line in zip(lines, wanted["lines"]))
print(f"{right} of {len(wanted['lines'])} lines are right; the file has {len(lines)}")
print(right / max(len(lines), len(wanted["lines"])))
PROGRAM
