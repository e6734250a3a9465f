"""Tests of the list of sources."""

from __future__ import annotations

import pytest

from grb_check.datasets.download.sources import check_sources, shown_url, urls_for
from grb_check.errors import UsageError


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("ftp://x.org/a.zip", "allowed are URL, NAME=URL"),
        ("/home/me/a.zip", "allowed are"),
        ("file:///a.zip", "allowed are"),
        ("", "allowed are"),
        ("Default", "'default'"),
        ("grb-cora=default", "allowed are"),
        ("grb-cora=", "allowed are"),
        ("=https://x.org/a", "allowed are"),
        ("https://x.org/a b.zip", "allowed are"),
        ("https://", "allowed are"),
        ("https:///a.zip", "not a complete URL"),
        ("https://x.org:port/a", "not a complete URL"),
        ("https://[::1/a", "not a complete URL"),
        ("https://x.org/{dataset}.zip", "not a complete URL"),
        ("grb-coar=https://x.org/a.zip", "grb-coar is never downloaded; the datasets are grb-cora"),
    ],
)
def test_a_malformed_entry_is_named_with_the_forms_allowed(entry: str, said: str) -> None:
    """Both functions refuse it, even when the entry before it would do."""
    with pytest.raises(UsageError) as caught:
        check_sources(["default", entry])
    assert repr(entry) in str(caught.value)
    assert said in str(caught.value)
    with pytest.raises(UsageError):
        urls_for("grb-flickr", [entry])


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://me:secret@x.org:8080/a?b=c", "https://x.org:8080/a?b=c"),
        ("https://x.org/a@b", "https://x.org/a@b"),
        ("https://[::1/a", "https://[::1/a"),
    ],
)
def test_credentials_are_not_shown(url: str, expected: str) -> None:
    """Everything else of a URL is shown, and a text that is not a URL stays as it is."""
    assert expected == shown_url(url)
