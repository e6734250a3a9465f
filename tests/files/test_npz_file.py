"""Files with a header and a checksum; the store's tests cover them too."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutants import sealed

from grb_check.files.npz_file import Unreadable, seal, unseal

HEAD = {"kind": "a test", "lists": [1, 2.5, None, {"ünïcode": "✓"}]}
ARRAYS = {"0/pairs": np.arange(6).reshape(2, 3), "empty": np.zeros((0, 4), np.float32)}


def test_head_and_arrays_come_back() -> None:
    """And equal content makes equal files."""
    content = seal(HEAD, ARRAYS)
    head, arrays = unseal(content)
    assert head == HEAD
    assert {name: (a.dtype, a.tolist()) for name, a in arrays.items()} == {
        name: (a.dtype, a.tolist()) for name, a in ARRAYS.items()
    }
    assert seal(HEAD, ARRAYS) == content


@given(st.data())
def test_every_other_byte_is_noticed(data: st.DataObject) -> None:
    """A changed bit anywhere, and a missing end."""
    content = seal(HEAD, ARRAYS)
    place = data.draw(st.integers(0, len(content) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    changed = content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]
    for other in (changed, content[:place]):
        with pytest.raises(Unreadable):
            unseal(other)


def test_other_files_are_refused() -> None:
    """An archive without the header, and objects that would have to be unpickled."""
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("a", "b")
        with pytest.raises(Unreadable, match="not a file of grb_check"):
            unseal(buffer.getvalue())
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        seal({}, {"a": np.array([{}])})


@pytest.mark.parametrize(
    "header", [b'{"limit": 1e999}', b'{"limit": NaN}', b"[" * 100_000, b"\xff"]
)
def test_a_header_with_what_json_lacks_is_refused(header: bytes) -> None:
    """An infinite limit would be kept by any model."""
    with pytest.raises(Unreadable, match="cannot be read: "):
        unseal(sealed({"grb_check.json": header}))
