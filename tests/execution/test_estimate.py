"""How long an audit may take."""

from __future__ import annotations

import pytest

from grb_check.execution.estimate import duration


@pytest.mark.parametrize(("given", "words"), [(0.4, "0 s"), (89.0, "89 s"), (119.0, "2 min")])
def test_a_duration_is_in_words(given: float, words: str) -> None:
    assert duration(given) == words
