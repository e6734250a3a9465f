"""Benchmarks that leave no setting behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def threads_are_kept() -> Iterator[None]:
    """A benchmark chooses the threads of its own process, which here is that of all tests."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
