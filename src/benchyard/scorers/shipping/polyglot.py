"""Exercises of Aider's Polyglot: their own tests, in the image of their language."""

import shlex
from collections.abc import Mapping
from typing import Any

from benchyard.errors import UsageError
from benchyard.models.attachments import PackedFile
from benchyard.models.shipped import Attachments, Shipped
from benchyard.scorers.polyglot import (
    ATTACHMENT,
    FIND,
    MOST_BYTES,
    MOST_FILES,
    TIMED_OUT,
    PolyglotConfig,
    language,
)

_AROUND_SECONDS = 60
_SCRIPT = """\
top=$(mktemp -d) && place=$top/{exercise} || exit 1
mkdir "$top/.home" && cp "$own/test.sh" "$top" && cp -R -- "$own/exercise" "$place" ||
    fail "$name: the exercise cannot be laid out"
# Of the answer only sources count: no tests, and nothing that tools take for their settings.
{find} -o -type f -printf '%P\\n' > "$top/.listed"
{{
    LC_ALL=C grep -aPx {taken} "$top/.listed" | grep -avxF {tests}
    grep -axF {solution} "$top/.listed"
}} | sort -u > "$top/.taken"
large=
[ "$(wc -l < "$top/.taken")" -le {most_files} ] || large=1
left={most_bytes}
while [ -z "$large" ] && IFS= read -r path; do
    left=$((left - $(stat -c %s -- "$path")))
    [ "$left" -ge 0 ] || {{ large=1; break; }}
    mkdir -p -- "$(dirname -- "$place/$path")" && cp -- "$path" "$place/$path" || fail "$path"
done < "$top/.taken"
as=
if [ "$(id -u)" -eq 0 ]; then
    chown -R 65534:65534 "$top" && as="setpriv --reuid=65534 --regid=65534 --clear-groups"
fi
if [ -n "$large" ]; then
    echo "the answer has more than {most_files} sources or {most_bytes} bytes of them" > "$logs/$name.out"
    status=1
else
    (cd -- "$place" && exec $as env HOME="$top/.home" LC_ALL=C.UTF-8 {values} \\
        timeout -k 5 {seconds} /bin/sh ../test.sh) > "$logs/$name.out" 2>&1
    status=$?
fi
told "$name"
[ "$status" -ne 127 ] || fail "$name: tests in {language} cannot run in this image"
[ "$status" -ne 124 ] && [ "$status" -ne 137 ] || echo {timed_out}
# Who only leaves with 0 has not passed: the runner of the tests must have said so.
[ "$status" -ne 0 ] || grep -aPq {passed} "$logs/$name.out" || status=1
passed "$name" "$weight" "$status"
"""


def shipped(scorer: Mapping[str, Any], attachments: Attachments, seconds: float) -> Shipped:
    """The tests of one exercise."""
    config = PolyglotConfig.model_validate(dict(scorer))
    if config.tools != "image":
        raise UsageError(
            "its tests run with the tools of this server, which no image has; import the benchmark with "
            "`--variant images`, and export that"
        )
    if ATTACHMENT not in attachments:
        raise UsageError(f"its attachment {ATTACHMENT!r} is missing; import it again")
    spoken = language(config.language)
    exercise = {
        f"exercise/{path}": PackedFile(spoken.prepared(path, file.content), file.mode)
        for path, file in attachments[ATTACHMENT].items()
        if path not in config.solution
    }
    find = " ".join(each if each == "-o" else shlex.quote(each) for each in FIND)
    script = _SCRIPT.format(
        find=find,
        taken=shlex.quote(spoken.taken),
        tests=" ".join(f"-e {shlex.quote(path)}" for path in config.tests or [""]),
        most_files=MOST_FILES,
        most_bytes=MOST_BYTES,
        exercise=config.exercise,
        solution=" ".join(f"-e {shlex.quote(path)}" for path in config.solution),
        values=" ".join(f"{name}={shlex.quote(value)}" for name, value in spoken.image.values.items()),
        seconds=round(seconds),
        language=config.language,
        timed_out=shlex.quote(TIMED_OUT),
        passed=shlex.quote(spoken.passed.pattern.decode()),
    )
    files = {**exercise, "test.sh": PackedFile(f"{spoken.command}\n".encode())}
    return Shipped(script, files, user="root", around_sec=_AROUND_SECONDS)
