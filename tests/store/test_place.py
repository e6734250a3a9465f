"""Places of stores, as plain data."""

from __future__ import annotations

import pytest

from grb_check.errors import UsageError
from grb_check.store import place as place_module
from grb_check.store.place import is_url, place_of


@pytest.mark.parametrize("text", ["memory://runs", "s3://bucket/a/b/", "s3a://b/c"])
def test_a_url_is_kept_without_its_last_slash(text: str) -> None:
    """Its protocol is one of fsspec whose package is installed."""
    assert place_of(text, "store").location == text.rstrip("/")
    assert is_url(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x://bucket", "store: 'x' is not a protocol .* give a directory, or a URL such as s3://"),
        ("file:///tmp/x", "store: 'file' is not a protocol of fsspec for other machines"),
        ("s3://", "store 's3://' names no bucket; write s3://BUCKET/PREFIX"),
        ("s3:///", "store 's3:///' names no bucket"),
        ("s3://bucket/a b", "blank"),
        ("s3://bucket/a?versionId=1", r"store s3://\.\.\. has a password, another query"),
        ("s3://bucket/a#b", "another query"),
        ("zip://a::s3://b", "a second protocol"),
        ("s3://bucket/\x1b[31m", "has a password"),
    ],
)
def test_a_url_that_is_no_place_is_refused(text: str, message: str) -> None:
    """The message says what to write."""
    with pytest.raises(UsageError, match=message):
        place_of(text, "store")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s3://bucket", r"pip install 'grb-check\[s3\]'"),
        ("gs://bucket", r"pip install 'grb-check\[gcs\]'"),
        ("abfs://bucket", "adlfs"),
    ],
)
def test_a_missing_package_is_named_before_any_work(
    text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the command that installs it, for the two that have an extra."""
    monkeypatch.setattr(place_module, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=f"needs a package that is missing: .*{message}"):
        place_of(text, "store")


@pytest.mark.parametrize("given", ["/a/store", "/a/store?mode=read"])
def test_the_text_of_a_place_names_it_again(given: str) -> None:
    """So that a process which is given it writes to no store that is only read."""
    place = place_of(given, "--grb-store")
    assert place.read_only == given.endswith("read")
    assert place_of(place.text, "--grb-store") == place
