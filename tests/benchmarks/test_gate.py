"""The gate's benchmark measures rates of alarms correctly."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gate import pretrained, settle, simulation
from benchmarks.gate.planted import PLANTS, Plant, Pool, compared, draw, mean_loss


def made_pool(losses: dict[str, float]) -> Pool:
    """Return models with 60 % accuracy less their loss; 100 targets, two attacks, two cases."""
    rng = np.random.default_rng(0)
    rate = {name: 0.6 - loss / 100 for name, loss in losses.items()}
    after = {
        name: (rng.random((24, 2, 2, 100)) < value).astype(np.int8) for name, value in rate.items()
    }
    before = dict.fromkeys(losses, np.ones((24, 2, 100), np.int8))
    return Pool(("x/easy/injection/a", "x/hard/injection/b"), before, after)


def test_the_simulation_sees_a_loss_and_nothing_where_nothing_is() -> None:
    """Large and certain in both directions."""
    pool = made_pool({"gcn": 0, "gcn_ln": -30})
    assert simulation.alarms(pool, "nothing", 10, 20) == 0
    assert simulation.alarms(pool, "layer norm removed", 10, 20) == 20
    assert mean_loss(pool, PLANTS["layer norm removed"]) == pytest.approx(30, abs=2)


def test_collapses_and_fixed_seeds_are_planted() -> None:
    """The gate names them."""
    pool, rng = made_pool({"gcn": 0}), np.random.default_rng(0)
    joint = compared(draw(pool, Plant(collapse=(0.2, 0.2)), 12, rng)).joint
    assert joint.collapses is not None
    assert joint.collapses.n == 12
    one = compared(draw(pool, Plant(same_seed=0), 12, rng)).joint
    assert (one.result, one.n) == ("inconclusive", 1)
    assert compared(draw(pool, Plant(same_seed=2), 12, rng)).joint.n == 6


def test_pretrained_models_and_suggested_repeats(tmp_path: Path) -> None:
    """A row for each loss."""
    path = tmp_path / "pool.npz"
    model_pool = made_pool({"gcn": 0})
    arrays = {"before/gcn": model_pool.before["gcn"], "after/gcn": model_pool.after["gcn"]}
    np.savez(path, cases=np.array(model_pool.cases), **arrays)
    options = argparse.Namespace(pool=path, losses=[0.0, 30.0], repeats=[1], runs=5)
    none, all_lost = pretrained.rows(options)
    assert none["1 repeat, all cases together"] == "0.0%"
    assert all_lost["1 repeat, all cases together"] == "100.0%"
    options = argparse.Namespace(pool=path, points=[3.0], repeats=[5], runs=3)
    (row,) = settle.rows(options)
    assert row["suggestions"] <= 3
