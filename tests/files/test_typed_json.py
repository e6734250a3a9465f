"""Typed JSON files: what is written is read back, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.errors import UsageError
from grb_check.files.text import fit_line
from grb_check.files.typed_json import FileKind, decode, encode, read


class Figures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A content with one field of each kind that files have."""

    name: str
    drop: float
    repeats: int
    limit: float | None = None
    notes: tuple[str, ...] = ()


KIND = FileKind(name="test file", type=Figures, format=2, remedy="write it again")
CONTENT = Figures(name="gcn", drop=0.25, repeats=3, notes=("first", "second"))

figures = st.builds(
    Figures,
    name=st.text().map(fit_line),
    drop=st.floats(allow_nan=False, allow_infinity=False),
    repeats=st.integers(min_value=-(2**53), max_value=2**53),
    limit=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    notes=st.lists(st.text().map(fit_line), max_size=3).map(tuple),
)


@given(figures)
def test_what_is_written_is_read_back(content: Figures) -> None:
    assert decode(KIND, encode(KIND, content, "1.0").encode(), "it") == (content)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"drop": 0.26}, "edited or damaged: its content does not match its digest"),
        ({"digest": "0" * 64}, "does not match its digest"),
        ({"digest": None}, "does not match its digest"),
        ({"drop": "0.25"}, "Expected `float`, got `str` - at `$.drop`"),
        ({"repeats": 3.5}, "at `$.repeats`"),
        ({"unknown": 1}, "unknown field `unknown`"),
        ({"format": 3}, "has format 3, written by grb_check '1.0'; this release reads format 2"),
        ({"format": True}, "is not a test file of grb_check"),
        ({"kind": "baseline"}, "has kind 'baseline', expected 'test file'"),
        ({"kind": None}, "is not a test file of grb_check"),
    ],
)
def test_a_changed_file_is_refused_with_the_reason(change: dict[str, Any], says: str) -> None:
    file = json.loads(encode(KIND, CONTENT, "1.0")) | change
    with pytest.raises(UsageError) as raised:
        decode(KIND, json.dumps(file).encode(), "test file 'x.json'")
    assert says in str(raised.value)
    assert str(raised.value).startswith("test file 'x.json' ")
    assert str(raised.value).endswith("write it again")


def test_numbers_that_json_lacks_are_not_written() -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        encode(KIND, Figures(name="a", drop=float("nan"), repeats=1), "1.0")


@given(st.data())
def test_changed_bytes_are_refused_or_change_nothing(data: st.DataObject) -> None:
    raw = bytearray(encode(KIND, CONTENT, "1.0").encode())
    index = data.draw(st.integers(min_value=0, max_value=len(raw) - 1))
    raw[index : index + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        result = decode(KIND, bytes(raw), "it")
    except UsageError:
        return
    assert result == CONTENT


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'.*gone.json': No such file.*; write it again"):
        read(KIND, tmp_path / "gone.json")
