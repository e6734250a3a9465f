"""Files with a header and a checksum; the store's tests cover them too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    index = data.draw(st.integers(0, len(content) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    changed = content[:index] + bytes([content[index] ^ bit]) + content[index + 1 :]
    for other in (changed, content[:index]):
        with pytest.raises(Unreadable):
            unseal(other)
