"""Builds by every builder: what goes in, what comes out, and that it comes out in our store."""

import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from benchyard.devboxes.base import Network
from benchyard.errors import BuildFailed
from benchyard.images.aliases import Aliases
from benchyard.images.builders.base import BuiltImage
from benchyard.images.merged_view import MergedView
from tests.images.builders.conftest import BASE, Yard

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="buildah as an ordinary user needs ranges of ids")


def read(yard: Yard, built: BuiltImage, path: str) -> bytes | None:
    return MergedView(yard.layers(built)).read(path)


def test_a_dockerfile_becomes_an_image_of_the_store(yard: Yard, tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    (context / "a.txt").write_text("from the context\n")
    (context / "secret.txt").write_text("ignored\n")
    (context / ".dockerignore").write_text("secret.txt\n")
    dockerfile = f"""ARG BASE={BASE}
FROM $BASE AS one
ARG WORD=nothing
RUN mkdir /made && echo "$WORD" > /made/word
FROM {BASE}
COPY --from=one /made /made
COPY . /context/
ENV COLOUR=blue
WORKDIR /srv
USER daemon
HEALTHCHECK CMD true
ENTRYPOINT ["/bin/sh", "-c"]
CMD ["true"]
"""
    built = yard.build(dockerfile, context=context, args={"WORD": "hello"})
    assert read(yard, built, "made/word") == b"hello\n"
    assert read(yard, built, "context/a.txt") == b"from the context\n"
    assert read(yard, built, "context/secret.txt") is None
    assert built.image.env["COLOUR"] == "blue"
    assert (built.image.user, built.image.working_directory) == ("daemon", "/srv")
    assert built.image.entrypoint == ("/bin/sh", "-c", "true")
    assert b"user:x:1000:" in (read(yard, built, "etc/passwd") or b"")
    assert any("STEP" in line for line in yard.lines)
    assert list((yard.folder / "builder/work").iterdir()) == []


def test_files_deleted_by_a_step_stay_deleted(yard: Yard) -> None:
    dockerfile = f"""FROM {BASE}
RUN mkdir -p /d/sub /kept && echo 1 > /d/sub/f && echo 2 > /gone && echo 3 > /kept/f
RUN rm -rf /d && mkdir /d && echo new > /d/new && rm /gone /kept/f
"""
    built = yard.build(dockerfile)
    assert read(yard, built, "d/new") == b"new\n"
    for path in ("d/sub/f", "gone", "kept/f"):
        assert read(yard, built, path) is None
    top = next(layer for layer in yard.layers(built) if (layer / "d/new").exists())
    assert os.getxattr(top / "d", "user.overlay.opaque") == b"y"
    assert stat.S_ISCHR((top / "gone").lstat().st_mode)


def test_layers_are_shared_with_the_base_and_with_earlier_builds(yard: Yard) -> None:
    first = yard.build(f"FROM {BASE}\nRUN echo one > /one\nRUN echo two > /two\n")
    second = yard.build(f"FROM {BASE}\nRUN echo one > /one\nRUN echo three > /three\n")
    base = yard.do(lambda store, _builder: store.get(BASE))
    shared = set(first.image.layers) & set(second.image.layers)
    assert set(base.layers) < shared
    assert len(shared) == len(base.layers) + 1
    assert any("Using cache" in line for line in yard.lines)
    if yard.wanted.kind == "buildah":
        one = next(layer for layer in yard.layers(first) if (layer / "two").exists())
        assert (one / "two").stat().st_nlink == 2, "shared with the engine, not copied"


def test_a_built_image_can_be_a_base(yard: Yard) -> None:
    yard.build(f"FROM {BASE}\nENV A=1\nRUN echo one > /one\n")
    second = yard.build("FROM made\nRUN cat /one > /copy\nCOPY <<text /text\n$A\ntext\n")
    assert read(yard, second, "copy") == b"one\n"
    assert read(yard, second, "text") == b"1\n"


def test_directives_count_but_for_another_reader(yard: Yard) -> None:
    dockerfile = f"# syntax=registry.invalid/reader:1\n# escape=`\nFROM {BASE}\nRUN echo one `\n > /one\n"
    assert read(yard, yard.build(dockerfile), "one") == b"one\n"
    error = failure(yard, f"{dockerfile}RUN exit 4\n")
    assert error.details == {"line": 6, "exit_status": 4}


def test_a_base_may_have_files_with_holes(yard: Yard, busybox: Path, tmp_path: Path) -> None:
    shutil.copytree(busybox, tmp_path / "root", symlinks=True)
    with (tmp_path / "root/holes").open("wb") as file:
        file.seek(3_000_000)
        file.write(b"middle")
        file.truncate(9_000_000)
    yard.do(lambda store, _builder: store.import_archive(tmp_path / "root", "with-holes"))
    built = yard.build("FROM with-holes\nRUN wc -c < /holes > /size\n")
    assert read(yard, built, "size") == b"9000000\n"
    base = yard.do(lambda store, _builder: store.get("with-holes"))
    assert set(base.layers) < set(built.image.layers)


def test_scratch_is_a_base(yard: Yard, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c/hello").write_text("hi")
    built = yard.build("FROM scratch\nCOPY hello /usr/hello\n", context=tmp_path / "c")
    assert read(yard, built, "usr/hello") == b"hi"


def test_here_documents_are_built_as_they_are_meant(yard: Yard) -> None:
    dockerfile = f"""FROM {BASE}
ENV WHO=world
RUN <<EOF
echo "hello $WHO" > /one
echo second >> /one
EOF
RUN <<EOF cat > /two
two $WHO
EOF
RUN <<'A' cat > /three && cat <<-"B" >> /three
raw $WHO
A
\t\ttabs
\tB
RUN <<EOF
#!/bin/awk -f
BEGIN {{ print "awk" > "/four" }}
EOF
COPY <<EOF <<'raw.txt' /copied/
expanded $WHO \\$WHO
EOF
raw $WHO
raw.txt
COPY --chmod=755 <<-EOF /single
\t\tcut
EOF
"""
    built = yard.build(dockerfile)
    assert read(yard, built, "one") == b"hello world\nsecond\n"
    assert read(yard, built, "two") == b"two world\n"
    assert read(yard, built, "three") == b"raw $WHO\ntabs\n"
    assert read(yard, built, "four") == b"awk\n"
    assert read(yard, built, "copied/EOF") == b"expanded world $WHO\n"
    assert read(yard, built, "copied/raw.txt") == b"raw $WHO\n"
    assert read(yard, built, "single") == b"cut\n"
    found = MergedView(yard.layers(built)).find("single")
    assert found
    assert found.mode == 0o755


def test_a_secret_is_seen_by_run_and_by_nothing_else(yard: Yard) -> None:
    value = "s3cr3t-Hallo-Welt"
    dockerfile = f"""FROM {BASE}
RUN test "$TOKEN" = "$(cat /run/secrets/TOKEN)" && echo "it is $TOKEN" && echo -n "$TOKEN" | wc -c > /length
RUN ["/bin/sh", "-c", "echo $TOKEN | rev | cut -c1 > /last"]
USER 12
RUN --mount=type=secret,id=TOKEN cat /run/secrets/TOKEN && test -n "$TOKEN"
"""
    built = yard.build(dockerfile, secrets={"TOKEN": value})
    assert read(yard, built, "length") == b"17\n"
    assert read(yard, built, "last") == b"t\n"
    assert "it is ***" in yard.lines
    assert not any(value in line for line in yard.lines)
    assert "TOKEN" not in built.image.env
    everything = [path for place in yard.places() for path in place.rglob("*")]
    seen = [path for path in everything if path.is_file() and not path.is_symlink()]
    assert len(seen) > 20
    assert [path for path in seen if value.encode() in path.read_bytes()] == []
    assert not MergedView(yard.layers(built)).find("run/secrets/TOKEN")


def test_without_a_network_steps_reach_nothing(yard: Yard) -> None:
    dockerfile = f"FROM {BASE}\nRUN tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' > /devices\n"
    built = yard.build(dockerfile, network=Network.NONE)
    assert read(yard, built, "devices") == b"lo\n"


def test_an_alias_stands_in_for_every_spelling_of_a_reference(yard: Yard) -> None:
    Aliases(yard.folder).set("ubuntu", BASE)
    dockerfile = (
        "FROM docker.io/library/ubuntu:latest AS a\nFROM ubuntu\nCOPY --from=ubuntu:latest /bin/cat /x\n"
    )
    built = yard.build(dockerfile)
    spelled = ("docker.io/library/ubuntu:latest", "ubuntu", "ubuntu:latest")
    assert built.substituted == dict.fromkeys(spelled, BASE)


def test_the_recipes_bases_come_first(yard: Yard) -> None:
    base = yard.do(lambda store, _builder: store.get(BASE))
    built = yard.build("FROM somewhere/else:1\nRUN true\n", bases={"somewhere/else:1": base.id})
    assert set(base.layers) < set(built.image.layers)
    assert built.substituted == {}


def failure(yard: Yard, dockerfile: str, **options: Any) -> BuildFailed:
    with pytest.raises(BuildFailed) as caught:
        yard.build(dockerfile, **options)
    assert list((yard.folder / "builder/work").iterdir()) == []
    return caught.value


def test_the_machines_own_system_cannot_be_a_base(yard: Yard) -> None:
    assert "cannot be the base of a Dockerfile: import one" in failure(yard, "FROM host\n").message


def test_a_base_that_cannot_be_had_says_how_to_bring_it(yard: Yard) -> None:
    error = failure(yard, "# one\nFROM registry.invalid/nothing:1\n")
    assert error.message.startswith("Dockerfile line 2: registry.invalid/nothing:1 cannot be had")
    assert "benchyard image import" in error.message
    assert "benchyard image alias registry.invalid/nothing:1 NAME" in error.message
    assert "image stand-in" not in error.message, "none can be made of that"


def test_a_failed_step_shows_its_line_its_output_and_its_status(yard: Yard) -> None:
    dockerfile = f"""FROM {BASE} AS unused
RUN exit 9
FROM {BASE}
COPY <<a <<b /x/
a
b
RUN <<EOF
echo "what it said"
exit 3
EOF
"""
    error = failure(yard, dockerfile)
    assert error.message.startswith("Dockerfile line 7: the command ended with status 3\n  RUN <<EOF")
    assert "    what it said" in error.message
    assert error.details == {"line": 7, "exit_status": 3}
    assert error.reason == "build_failed"


def test_a_missing_source_is_reported_without_paths_of_the_server(yard: Yard, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    error = failure(yard, f"FROM {BASE}\nCOPY nothing /\n", context=tmp_path / "c")
    assert error.message.startswith("Dockerfile line 2: ")
    assert "no such file" in error.message
    assert str(tmp_path) not in error.message


def test_links_of_a_context_lead_nowhere_outside(yard: Yard, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "outside").write_text("outside")
    (tmp_path / "c/link").symlink_to(tmp_path / "outside")
    (tmp_path / "c/folder").symlink_to(tmp_path)
    for source in ("link", "folder/outside"):
        # The engine's own words differ with its luck; that the step fails does not.
        error = failure(yard, f"FROM {BASE}\nCOPY {source} /x\n", context=tmp_path / "c")
        assert error.message.startswith("Dockerfile line 2: ")
    (tmp_path / "d").symlink_to(tmp_path / "c")
    assert "not a folder" in failure(yard, f"FROM {BASE}\n", context=tmp_path / "d").message


def test_bad_names_are_refused(yard: Yard) -> None:
    assert "cannot name an argument" in failure(yard, f"FROM {BASE}\n", secrets={"a b": "x"}).message
    assert "null byte" in failure(yard, f"FROM {BASE}\n", args={"A": "\0"}).message
