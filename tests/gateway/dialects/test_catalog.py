"""The dialect of a path."""

import pytest

from benchyard.gateway.dialects import catalog


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/messages?beta=true", "anthropic"),
        ("/prefix/v1/responses", "responses"),
        ("/v1/chat/completions", "chat"),
        ("/v1beta/models/m:generateContent", "gemini"),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", "gemini"),
        ("/v1/messages/count_tokens", None),
        ("/v1/models", None),
        ("/v1beta/models/m:countTokens", None),
        ("/v1/responses/resp_1", None),
        ("/?x=/v1/messages", None),
        ("", None),
    ],
)
def test_the_end_of_the_path_tells_the_dialect(path: str, name: str | None) -> None:
    found = catalog.dialect_of_path(path)
    assert (found.name if found else None) == name


def test_every_dialect_is_listed_once_and_found_by_its_name() -> None:
    names = [dialect.name for dialect in catalog.all_dialects()]
    assert sorted(names) == ["anthropic", "chat", "gemini", "responses"]
    assert [catalog.dialect_named(name) for name in names] == catalog.all_dialects()
    assert catalog.dialect_named("morse") is None
