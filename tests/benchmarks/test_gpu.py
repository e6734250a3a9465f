"""The benchmark of GPUs runs anywhere at a small scale, row by row."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


@pytest.mark.slow
def test_the_smallest_row_runs_anywhere(tmp_path: Path) -> None:
    """As a file, from another folder; a second call finds the row there."""
    command = [sys.executable, str(FILE), "--out", "out", "--device", "cpu", "--scale", "small"]
    for _ in range(2):
        done = subprocess.run(
            [*command, "--rows", "prbcd-arxiv"], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    (line,) = (tmp_path / "out" / "rows.jsonl").read_text().splitlines()
    row = json.loads(line)
    assert (tmp_path / "out" / "gpu.md").read_text() in done.stdout
    assert row["row"] == "prbcd-arxiv"
    assert row["attacked"] < row["clean"]
