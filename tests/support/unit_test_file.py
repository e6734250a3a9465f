"""A small file in the format of the published unit test, which is not shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

NODES, FEATURES, CLASSES = 120, 20, 3
MODELS = ("gcn", "jaccard_gcn")
SIZES = (2, 8, 30)


def arrays(seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Both graphs with five splits, and flips against two models at three budgets."""
    rng = np.random.default_rng(seed)
    result: dict[str, np.ndarray[Any, Any]] = {}
    for graph in ("cora_ml", "citeseer"):
        labels = np.arange(NODES) % CLASSES
        pairs = np.stack(np.triu_indices(NODES, 1), axis=1)
        alike = labels[pairs[:, 0]] == labels[pairs[:, 1]]
        edges = pairs[rng.random(len(pairs)) < np.where(alike, 0.12, 0.02)]
        dense = rng.random((NODES, FEATURES)) < 0.1 + 0.4 * np.eye(CLASSES, FEATURES)[labels]
        dense[:, -1] = True
        result[f"{graph}/dataset/adjacency"] = edges
        result[f"{graph}/dataset/features"] = np.argwhere(dense)
        result[f"{graph}/dataset/labels"] = labels
        for split in range(5):
            order = rng.permutation(NODES)
            parts = zip(("train", "val", "test"), np.split(order, [30, 50]), strict=True)
            result |= {f"{graph}/splits/{split}/{part}": nodes for part, nodes in parts}
            for scenario in ("evasion", "poisoning"):
                for model in MODELS:
                    chosen = pairs[rng.permutation(len(pairs))]
                    for size in SIZES:
                        key = f"perturbations/{scenario}/{model}/split_{split}/budget_{size:05d}"
                        result[f"{graph}/{key}"] = chosen[:size, ::-1]  # in any order
    return result


def write(path: Path, **changes: np.ndarray[Any, Any]) -> Path:
    """Write the file; `changes` replace arrays."""
    np.savez(path, **(arrays() | changes))
    return path
