"""How many processes a machine has room for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grb_check.execution.cores import cores


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("max 100000", 8), ("150000 100000", 2), ("50000 100000", 1), ("", 8), ("0 0", 8)],
)
def test_a_quota_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, expected: int
) -> None:
    """As in a container; a process may be bound to some cores besides."""
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    path = tmp_path / "cpu.max"
    path.write_text(quota)
    assert cores(path) == expected
    assert cores(tmp_path / "nowhere") == 8
