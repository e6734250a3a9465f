"""The benchmark of a first run: its parts add up, and are of the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.first_run import first_run


@pytest.mark.slow
def test_the_parts_of_the_smallest_run_add_up(tmp_path: Path) -> None:
    row = first_run("gin", tmp_path)
    parts = ("imports", "training", "white_box", "black_box", "rest")
    assert sum(row[part] for part in parts) == pytest.approx(row["seconds"])
    assert row["ratio"] == pytest.approx(row["seconds"] / (row["imports"] + row["training"]))
    assert all(row[part] > 0 for part in parts[:-1])
    assert row["peak_mib"] > 100
