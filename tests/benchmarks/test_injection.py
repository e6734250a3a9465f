"""The injection benchmark measures strength, speed and budgets correctly."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tiny import write_dataset

from benchmarks.command import run
from benchmarks.injection import arena as bench
from benchmarks.injection.__main__ import COMMANDS
from benchmarks.victims import load_dataset


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "tiny")


@pytest.fixture
def arena(folder: Path) -> bench.Arena:
    return bench.prepare(load_dataset(str(folder), []), 3)


def test_strength_writes_a_line_for_each_attack_seed_and_victim(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"injection strength --data {folder} --difficulty easy --attacks rnd"
    line += " fgsm+iterations=4 --seeds 2 --epochs 2 --white-box"
    monkeypatch.setattr(sys, "argv", line.split())
    run("benchmarks.injection", None, COMMANDS)
    text, table = capsys.readouterr().out.split("\n\n")
    clean, *rows = map(json.loads, text.splitlines())
    models = {"GCN", "second GCN", "GIN", "GCN+LN"}
    assert set(clean["accuracy"]) == models | {"GCN, pruned"}
    counts = {}
    for row in rows:
        key = row["knowledge"], row["attack"]
        counts[key] = counts.get(key, 0) + 1
        assert row["edges"] <= row["edge_budget"] == 20 * 20
        assert row["outside_range"] == 0
    assert counts == {
        ("black-box", "rnd"): 2,
        ("black-box", "fgsm+iterations=4"): 2,
        ("white-box", "fgsm+iterations=4"): 2 * len(models),
    }
    assert len(table.splitlines()) == 2 + 1 + len(counts)
