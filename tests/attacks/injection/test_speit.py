"""SPEIT's links: by degree, and among the injected nodes."""

from __future__ import annotations

import pytest

from grb_check.attacks.injection.speit import InjectionSpeit
from grb_check.errors import UsageError


@pytest.mark.parametrize("inner_links", [-2, 1, 3])
def test_a_ring_of_odd_or_negative_degree_is_refused(inner_links: int) -> None:
    """The message says what is allowed."""
    with pytest.raises(UsageError, match=rf"inner_links is {inner_links}; it must be 0, 2, 4"):
        InjectionSpeit(inner_links=inner_links)
