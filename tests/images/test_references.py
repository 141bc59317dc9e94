"""References: many spellings, one meaning."""

import pytest

from benchyard.errors import UsageError
from benchyard.images.references import normal_reference

DIGEST = "@sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("spelled", "full"),
    [
        ("ubuntu", "docker.io/library/ubuntu:latest"),
        ("ubuntu:22.04", "docker.io/library/ubuntu:22.04"),
        ("library/ubuntu", "docker.io/library/ubuntu:latest"),
        ("docker.io/ubuntu", "docker.io/library/ubuntu:latest"),
        ("index.docker.io/library/ubuntu:latest", "docker.io/library/ubuntu:latest"),
        ("team/image", "docker.io/team/image:latest"),
        ("ghcr.io/team/image:v1", "ghcr.io/team/image:v1"),
        ("localhost/image", "localhost/image:latest"),
        ("localhost:5000/image", "localhost:5000/image:latest"),
        ("registry.example:5000/a/b/c:d", "registry.example:5000/a/b/c:d"),
        (f"ubuntu{DIGEST}", f"docker.io/library/ubuntu{DIGEST}"),
        (f"ubuntu:22.04{DIGEST}", f"docker.io/library/ubuntu{DIGEST}"),
    ],
)
def test_every_spelling_has_one_full_form(spelled: str, full: str) -> None:
    assert normal_reference(spelled) == full
    assert normal_reference(full) == full


@pytest.mark.parametrize(
    "text",
    ["", "Ubuntu", "a b", "-x", "../x", "a//b", "a:b:c/", "x@sha256:12", "a" * 300, "a\nb", "$X", "--x"],
)
def test_invalid_reference_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a reference to an image"):
        normal_reference(text)
