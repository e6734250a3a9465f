"""The modification benchmark measures strength, speed and budgets correctly."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import torch
from tiny import write_dataset

from benchmarks.command import Command
from benchmarks.modification import adaptive, exact, peer, small
from benchmarks.modification import arena as bench
from benchmarks.victims import load_dataset
from grb_check.datasets.dataset import Dataset
from grb_check.gradients.victim import Victim
from grb_check.models import mlp
from grb_check.training.building import build_victim


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "tiny")


@pytest.fixture
def dataset(folder: Path) -> Dataset:
    return load_dataset(str(folder), [])


@pytest.fixture
def victim(dataset: Dataset) -> Victim:
    return bench.fitted(bench.small_gcn, dataset, name="GCN", seed=0, epochs=20)


def options_of(benchmark: Command, line: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    benchmark.add_arguments(parser)
    return parser.parse_args(line.split())


@pytest.mark.slow
def test_both_sides_attack_each_model_within_the_budget(dataset: Dataset) -> None:
    line = "--data . --seeds 1 --epochs 20 --victim own pyg --peers --peer-epochs 3 --block 3000"
    line += " --attacks rnd grbcd+steps=2+exchanges=0"
    rows = list(adaptive.of_dataset(dataset, options_of(adaptive, line)))
    peers = peer.PEERS
    names = ["rnd", "grbcd+steps=2+exchanges=0", *peers]
    assert [(row["victim"], row["attack"]) for row in rows] == [
        (victim, name) for victim in ("own", "pyg") for name in names
    ]
    for row in rows:
        assert 0 < row["used"] == row["added"] + row["removed"] <= row["budget"]
        assert row["budget"] == dataset.num_edges // 20
        assert row["drop"] == pytest.approx(100 * (1 - row["attacked"] / row["clean"]), abs=0.01)
        assert row["threads"] == 1
    assert len(adaptive.table(rows).splitlines()) == 2 + len(rows)


@pytest.mark.slow
def test_attacks_are_judged_by_every_flip(dataset: Dataset) -> None:
    """No attack fells what is proven, and random ones find less than all."""
    line = "--data . --victims GCN --attacks nettack fga --targets 6 --sample 3 --epochs 20"
    whole, *attacks = exact.of_dataset(dataset, options_of(exact, line))
    assert whole["right"] == whole["proven"] + whole["fallen"] + whole["undecided"]
    assert whole["flips"] > 0
    assert [row["attack"] for row in attacks] == ["nettack", "fga"]
    for row in attacks:
        assert row["broken"] == 0
        assert 0 <= row["found"] <= 1


@pytest.mark.slow
def test_models_are_proven_on_parts_of_a_graph(dataset: Dataset) -> None:
    """A model that ignores the edges keeps all; no attack breaks a proof."""
    first = next(small.parts_of(dataset))
    assert first.num_nodes == small.NODES
    model = build_victim(
        mlp(dataset.num_features, dataset.num_classes),
        dataset,
        name="mlp",
        seed=0,
        device=torch.device("cpu"),
    )
    rows = list(small.of_part(first, model, ["rnd", "fga"]))
    assert [row["attack"] for row in rows] == ["any-removals", "any-flip", "rnd", "fga"]
    assert rows[0]["proven"] == rows[1]["proven"] == rows[0]["right"] > 0
    assert rows[2]["broken"] == 0
    assert "error" in rows[3]
    assert "100.0%" in small.table([{"model": "mlp"} | row for row in rows])
