"""Items of SWE-bench: the answer's patch on the image's checkout, graded by the package `swebench`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchyard.errors import ScorerFailed, UsageError
from benchyard.models.attachments import PackedFile
from benchyard.models.shipped import Attachments, PythonNeeds, Shipped
from benchyard.models.swe_bench import ATTACHMENT, EVAL_SCRIPT, SPEC, SweBenchTests
from benchyard.scorers import shipping_git, swebench_child, swebench_grading
from benchyard.scorers.swe_bench import SweBenchConfig

_GRADED = """\
{applied}
if [ -z "$applied" ]; then
    nothing "the patch does not apply"
else
    timeout -k 5 {seconds} bash --noprofile --norc "$own/eval.sh" > "$logs/$name.log" 2>&1
    status=$?
    tail -c 20000 "$logs/$name.log"
    sed 's/{code}/>>>>> Printed Exit Code/' "$logs/$name.log" > "$work/log"
    printf '\\n{code}: %s\\n' "$status" >> "$work/log"
    "$python" -I -X utf8 "$own/grade.py" "$own/spec.json" "$work/log" rewards \\
        > "$logs/$name.out" 2>> "$logs/$name.err" || fail "$name: the log could not be graded"
fi
"""


def shipped(scorer: Mapping[str, Any], attachments: Attachments, seconds: float) -> Shipped:
    """The tests of one item."""
    config = SweBenchConfig.model_validate(dict(scorer))
    try:
        files = attachments[ATTACHMENT]
        tests = SweBenchTests.model_validate_json(files[SPEC].content)
        script = swebench_grading.script(files[EVAL_SCRIPT].content.decode())
        version = swebench_grading.version()
    except (KeyError, ValueError) as error:
        raise UsageError(f"its attachment {ATTACHMENT!r} is not as it should be: import it again") from error
    except ScorerFailed as error:
        raise UsageError(error.message) from error
    made = {
        "eval.sh": PackedFile(script.encode()),
        "spec.json": PackedFile(tests.spec.model_dump_json().encode()),
        "grade.py": PackedFile(Path(swebench_child.__file__).read_bytes()),
    }
    graded = _GRADED.format(
        applied=shipping_git.applied(),
        seconds=shipping_git.seconds_for_tests(seconds),
        code=swebench_grading.EXIT_CODE,
    )
    text = shipping_git.script(config.base_commit, graded)
    return Shipped(text, made, PythonNeeds(None, (f"swebench=={version}",)), user="root")
