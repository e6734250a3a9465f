"""Clusters that leave no variables behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from unittest import mock

import pytest


@pytest.fixture(autouse=True, scope="module")
def environment_is_kept() -> Iterator[None]:
    """A nanny of Dask sets `OMP_NUM_THREADS=1` for the process that starts it too."""
    with mock.patch.dict(os.environ):
        yield
