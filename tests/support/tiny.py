"""A tiny dataset in GRB's four-file format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

NODES, FEATURES, CLASSES = 160, 8, 3


def write_dataset(folder: Path, seed: int = 0) -> Path:
    """A graph in GRB's four-file format whose classes show in features and in edges."""
    rng = np.random.default_rng(seed)
    labels = np.arange(NODES) % CLASSES
    first = rng.integers(0, NODES, 900)
    second = rng.integers(0, NODES, 900)
    keep = (first != second) & ((labels[first] == labels[second]) | (rng.random(900) < 0.2))
    pairs = np.stack([first[keep], second[keep]])
    adjacency = sp.coo_matrix((np.ones(pairs.shape[1]), pairs), shape=(NODES, NODES))
    adjacency = ((adjacency + adjacency.T) > 0).astype(np.float32).tocsr()
    features = rng.normal(size=(NODES, FEATURES)) + 1.2 * np.eye(CLASSES, FEATURES)[labels]
    parts = np.split(np.argsort(adjacency.getnnz(axis=1), kind="stable")[8:56], 3)
    rest = np.setdiff1d(np.arange(NODES), np.concatenate(parts))
    rng.shuffle(rest)
    folder.mkdir(parents=True)
    sp.save_npz(folder / "adj.npz", adjacency)
    np.savez(folder / "features.npz", data=features.astype(np.float32))
    np.savez(folder / "labels.npz", data=labels)
    np.savez(
        folder / "index.npz",
        index_train=np.sort(rest[20:]),
        index_val=np.sort(rest[:20]),
        index_test=np.sort(np.concatenate(parts)),
        **{
            f"index_test_{level}": np.sort(part)
            for level, part in zip(("easy", "medium", "hard"), parts, strict=True)
        },
    )
    return folder
