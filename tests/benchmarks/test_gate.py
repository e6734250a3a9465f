"""The gate's benchmark measures rates of alarms correctly."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest
from tiny import write_dataset

from benchmarks.gate import pool, simulation


def made_pool(losses: dict[str, float]) -> simulation.Pool:
    """Return models with 60 % accuracy less their loss; 100 targets, two attacks, two cases."""
    rng = np.random.default_rng(0)
    rate = {name: 0.6 - loss / 100 for name, loss in losses.items()}
    after = {
        name: (rng.random((24, 2, 2, 100)) < value).astype(np.int8) for name, value in rate.items()
    }
    return simulation.Pool(("x/easy/injection/a", "x/hard/injection/b"), after)


def test_the_simulation_sees_a_loss_and_nothing_where_nothing_is() -> None:
    """Large and certain in both directions."""
    pool = made_pool({"gcn": 0, "gcn_ln": -30})
    assert simulation.alarms(pool, "nothing", 10, 20) == 0
    assert simulation.alarms(pool, "layer norm removed", 10, 20) == 20
    assert simulation.mean_loss(pool, "layer norm removed") == pytest.approx(30, abs=2)


def test_a_planted_loss_is_of_its_size() -> None:
    """The right number of targets becomes wrong, and none becomes right."""
    right = (np.random.default_rng(1).random((3, 200)) < 0.5).astype(np.int8)
    worse = simulation._worse(right, 3.0, np.random.default_rng(2))
    assert (right - worse).sum(axis=1).tolist() == [6, 6, 6]
    assert (right - worse).min() == 0


def test_the_pool_holds_every_model_under_every_attack(tmp_path: Path) -> None:
    """A second run measures nothing."""
    options = argparse.Namespace(
        data=str(write_dataset(tmp_path / "tiny")),
        folder=[],
        variants=["gcn"],
        seeds=1,
        attack_seeds=1,
        store=None,
        out=tmp_path / "pool.npz",
    )
    assert len(list(pool.rows(options))) == 1
    kept = dict(np.load(options.out))
    assert kept["after/gcn"].shape[:3] == (1, 1, 15)
    assert kept["before/gcn"].shape[:2] == (1, 15)
    assert set(np.unique(kept["after/gcn"])) <= {-1, 0, 1}
    assert list(pool.rows(options)) == []
