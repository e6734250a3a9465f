"""The benchmark of detectors, on a graph of a few nodes in the files' form."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import fraud

NODES = 300


@pytest.mark.slow
def test_a_row_has_clean_figures_and_what_each_attack_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(0)
    labels = (generator.random(NODES) < 0.3).astype(np.int64)
    parts = generator.permutation(NODES) % 3
    features = generator.normal(size=(NODES, 4)).astype(np.float32)
    features[:, 0] += 3 * labels
    np.savez(
        tmp_path / "minesweeper.npz",
        node_features=features,
        node_labels=labels,
        edges=generator.integers(NODES, size=(900, 2)),
        **{
            f"{name}_masks": np.stack([parts == number] * 10)
            for number, name in enumerate(("train", "val", "test"))
        },
    )
    monkeypatch.setenv(fraud.FOLDER, str(tmp_path))
    attacks = ["rnd", "rnd+gang=4x1", "injection/rnd+gang=4x1"]
    options = Namespace(models=["gcn"], share=0.1, attacks=attacks, store=tmp_path / "store")
    rows = fraud.rows("minesweeper", fraud.measured("minesweeper", options))
    assert [row["model"] for row in rows] == ["gcn", "mlp", "logistic_regression", "degree"]
    by_model = {row["model"]: row for row in rows}
    assert by_model["logistic_regression"]["ROC-AUC"] > 90 > by_model["degree"]["ROC-AUC"]
    assert by_model["mlp"]["rnd"] == "{0} > {0}".format(by_model["mlp"]["clean"])
    assert all(" > " in by_model["gcn"][name] for name in attacks)
