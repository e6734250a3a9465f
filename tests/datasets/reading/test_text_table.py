"""Text tables as other programs leave them."""

from __future__ import annotations

import io

import pytest

from grb_check.datasets.reading.text_table import read_table
from grb_check.errors import DataError


def test_utf_16_is_refused_by_name() -> None:
    """With the file, and what to do."""
    stream = io.BytesIO("1, 2\n".encode("utf-16"))
    with pytest.raises(DataError, match=r"x\.csv: .*it is UTF-16 or UTF-32; save it as UTF-8"):
        read_table(stream, "int64", 2, "x.csv", largest=100)
