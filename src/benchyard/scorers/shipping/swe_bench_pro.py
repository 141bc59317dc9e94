"""Items of SWE-Bench Pro: the answer's patch on the image's checkout, the item's own script and parser."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchyard.errors import UsageError
from benchyard.models.attachments import PackedFile
from benchyard.models.shipped import Attachments, PythonNeeds, Shipped
from benchyard.models.swe_bench import ATTACHMENT, PARSER, RUN_SCRIPT, SPEC, TESTS_PATCH, SweBenchProTests
from benchyard.scorers import shipping_git, swe_pro_results
from benchyard.scorers.swe_bench_pro import entry

_GRADED = """\
alone git reset --quiet --hard {commit} && alone git checkout --quiet {commit} || fail "$name: {commit}"
"$python" -I "$own/results.py" text "$work/drawn.diff" "$work/text.diff" || fail "$name: no patch"
alone git apply -v "$work/text.diff" 2>> "$logs/$name.err" || echo "the patch does not apply"
[ -s "$own/restore.sh" ] && alone bash --noprofile --norc "$own/restore.sh" 2>> "$logs/$name.err" || {{
    for path in {tests}; do
        alone git checkout --quiet {commit} -- "$path" 2>/dev/null || rm -rf -- "$path"
    done
    alone git apply -v "$own/{patch}" 2>> "$logs/$name.err" ||
        fail "$name: the patch of the tests does not apply"
}}
RUN_SCRIPT="$own/{run}" timeout -k 5 {seconds} bash --noprofile --norc "$own/entry.sh" \\
    > "$logs/$name.log" 2> "$work/stderr.log"
tail -c 20000 "$logs/$name.log"
"$python" -I -X utf8 "$own/{parser}" "$logs/$name.log" "$work/stderr.log" "$work/result.json" ||
    echo "the log has no results"
"$python" -I "$own/results.py" rewards "$own/{spec}" "$work/result.json" > "$logs/$name.out" ||
    fail "$name: it was not graded"
"""


def shipped(_scorer: Mapping[str, Any], attachments: Attachments, seconds: float) -> Shipped:
    """The tests of one item."""
    try:
        files = {name: attachments[ATTACHMENT][name] for name in (RUN_SCRIPT, PARSER, TESTS_PATCH, SPEC)}
        spec = SweBenchProTests.model_validate_json(files[SPEC].content)
    except (KeyError, ValueError) as error:
        raise UsageError(f"its attachment {ATTACHMENT!r} is not as it should be: import it again") from error
    made = {
        **files,
        "restore.sh": PackedFile(spec.restore.encode()),
        "entry.sh": PackedFile(entry(spec, '"$RUN_SCRIPT"').encode()),
        "results.py": PackedFile(Path(swe_pro_results.__file__).read_bytes()),
    }
    graded = _GRADED.format(
        commit=spec.base_commit,
        tests=" ".join(map(shlex.quote, spec.test_files)),
        patch=TESTS_PATCH,
        run=RUN_SCRIPT,
        parser=PARSER,
        spec=SPEC,
        seconds=shipping_git.seconds_for_tests(seconds),
    )
    text = shipping_git.script(spec.base_commit, graded)
    return Shipped(text, made, PythonNeeds(), user="root")
