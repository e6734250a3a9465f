"""Places of stores, as plain data."""

from __future__ import annotations

import pytest

from grb_check.errors import UsageError
from grb_check.store.place import place_of


@pytest.mark.parametrize(
    ("text", "message"),
    [("s3://key:secret@bucket", "is a URL, and a store is a directory"), ("a?mode=w", "mode=read")],
)
def test_what_is_no_directory_is_refused(text: str, message: str) -> None:
    """Without the URL, which may hold a password."""
    with pytest.raises(UsageError, match=message) as raised:
        place_of(text, "store")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("given", ["/a/store", "/a/store?mode=read"])
def test_the_text_of_a_place_names_it_again(given: str) -> None:
    """So that a process which is given it writes to no store that is only read."""
    parsed = place_of(given, "--grb-store")
    assert parsed.read_only == given.endswith("read")
    assert place_of(parsed.text, "--grb-store") == parsed
