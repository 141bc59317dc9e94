"""Dockerfiles that continue a base, and previews."""

import pytest

from benchyard.engine.images.build import dockerfile_preview, dockerfile_with_base
from benchyard.models.blueprints import Blueprint, BlueprintRequest

BASE = Blueprint(id="bpt_0", create_time_ms=0, name="base", parameters=BlueprintRequest(name="base"))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("RUN true", "FROM bpt_0\nRUN true"),
        ("", "FROM bpt_0\n"),
        ("# escape=`\n# words\nRUN true\n", "# escape=`\n# words\nFROM bpt_0\nRUN true\n"),
        ("# only words", "# only words\nFROM bpt_0\n"),
        ("ARG V=1\nFROM x:$V\n", "ARG V=1\nFROM x:$V\n"),
        ("from base\n", "from base\n"),
    ],
)
def test_a_dockerfile_without_from_continues_its_base(text: str, wanted: str) -> None:
    assert dockerfile_with_base(text, BASE) == wanted
    assert dockerfile_with_base(text, None) == text


def test_a_preview_shows_every_step_in_its_order() -> None:
    request = BlueprintRequest.model_validate(
        {
            "name": "n",
            "file_mounts": {"/etc/a b": "text"},
            "code_mounts": [
                {"repo_owner": "o", "repo_name": "r", "git_ref": "v1", "install_command": "make"}
            ],
            "system_setup_commands": ["one", "two\nBENCHYARD_END\nthree"],
            "secrets": {"TOKEN": "S"},
            "launch_parameters": {"user_parameters": {"username": "root", "uid": 0}},
        }
    )
    assert dockerfile_preview(request, BASE) == (
        "FROM bpt_0\n"
        "# In the environment of the commands below, in no layer: TOKEN\n"
        "# '/etc/a b': 4 bytes: 'text'\n"
        "COPY '/etc/a b' '/etc/a b'\n"
        "USER root\n"
        "RUN git clone o/r r && git -C r checkout v1\n"
        "RUN cd r && make\n"
        "RUN one\n"
        "RUN <<'BENCHYARD_END_'\ntwo\nBENCHYARD_END\nthree\nBENCHYARD_END_\n"
    )


def test_a_preview_of_a_context_names_its_object() -> None:
    request = BlueprintRequest.model_validate({"name": "n", "build_context": {"object_id": "obj_1"}})
    assert "obj_1" in dockerfile_preview(request, None)
    assert dockerfile_preview(BlueprintRequest(name="n"), None).startswith("FROM ")
