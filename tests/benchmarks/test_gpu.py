"""The benchmark of GPUs runs anywhere at a small scale, row by row."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.gpu_rows import Job, Measurement
from benchmarks.gpu_run import NO_DEVICE, failures, in_process, main, read, report
from benchmarks.rows import Row

FILE = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


@pytest.mark.parametrize(
    ("device", "told"), [("cpu", "give --device cpu --scale small"), ("cuda:77", "cuda:77")]
)
def test_without_a_gpu_it_says_so_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str, told: str
) -> None:
    """With an exit code of its own, and nothing is written."""
    out = tmp_path / "out"
    assert main(["--out", str(out), "--device", device], None) == NO_DEVICE == 4
    assert told in capsys.readouterr().err
    assert not out.exists()


def test_the_last_line_of_a_row_counts_and_failed_ones_are_named(tmp_path: Path) -> None:
    """A row fails by an error, by that of an attack, or by other figures."""
    path = tmp_path / "rows.jsonl"
    assert read(path) == {}
    pair = {"model": "gcn", "attack": "injection/pgd", "cpu": 50.0, "device": 49.0, "same": True}
    other = pair | {"device": 40.0, "same": False}
    broken = {"model": "gcn", "attack": "injection/rnd", "error": "RuntimeError: devices"}
    lines: list[Row] = [
        {"row": "jobs-auto", "error": "longer than 9 s"},
        {"row": "tdgia-aminer", "seconds": 41.0, "goal": 60},
        {"row": "agreement-gcn", "attacks": [pair, other, broken]},
        {"row": "jobs-auto", "plain_seconds": 3.0},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = read(path)
    assert list(rows) == ["agreement-gcn", "tdgia-aminer", "jobs-auto"]
    assert failures(rows["agreement-gcn"]) == [
        "gcn, injection/pgd: other figures",
        "gcn, injection/rnd: RuntimeError: devices",
    ]
    assert failures(rows["tdgia-aminer"]) == failures(rows["jobs-auto"]) == []
    assert "| tdgia-aminer |" in report(rows)
    assert "| gcn | injection/pgd | 50 | 40 |" in report(rows)


def raising(_: Job) -> Iterator[Row]:
    yield {"steps": 1}
    raise ValueError("too large")


def dying(_: Job) -> Iterator[Row]:
    yield {"steps": 1}
    os._exit(7)


@pytest.mark.slow
def test_a_row_that_fails_keeps_what_it_had(tmp_path: Path) -> None:
    """Whether it raises or its process dies."""
    job = Job(graphs=str(tmp_path), device="cpu", scale="small")
    for measure, limit, error in (
        (raising, 300.0, "ValueError: too large"),
        (dying, 300.0, "the process ended with 7"),
    ):
        row = in_process(Measurement(name="x", measure=measure, limit=limit), job, limit)
        assert (row["steps"], row["error"]) == (1, error)
        assert "finished" not in row


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
