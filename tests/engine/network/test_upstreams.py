"""Addresses of upstreams, as people write them."""

import pytest

from benchyard.engine.network.model_routes import check_url
from benchyard.errors import UsageError


@pytest.mark.parametrize("url", ["http://h", "https://[::1]:8000/v1", "http://10.0.0.5:8000/some/path"])
def test_a_plain_address_is_one(url: str) -> None:
    assert check_url(url) == url
    assert check_url(f"{url}/") == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h",
        "ftp://h",
        "http://",
        "http://[::1",
        "http://h:99999",
        "http://ho st",
        "http://h\r\nx-evil: 1",
        "http://h\t/v1",
        "http://h/v1\n",
        "http://ü",
        "http://h?",
        "http://h?key=1",
        "http://h#",
        "http://@h",
        "http://user:word@h",
    ],
)
def test_urls_that_change_when_they_are_sent_are_refused(url: str) -> None:
    with pytest.raises(UsageError):
        check_url(url)
