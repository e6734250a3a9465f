"""Four-file directories with the published figures of grb-cora and grb-citeseer.

The graphs are the real ones that GRB started from; the features, which cannot be had, are noise
with the published range.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.grb_writer import write_folder
from grb_check.datasets.splits import grb_split


@dataclass(frozen=True)
class Recipe:
    """Figures of a dataset, see `datasets/paper_figures/datasets.json`."""

    structure: str
    features: int
    lowest: float
    highest: float
    deviation: float  # puts the normalised ends where the published ones are


RECIPES = {
    "grb-cora": Recipe("refined-cora", 302, -2.3, 2.4, 0.2285),
    "grb-citeseer": Recipe("refined-citeseer", 768, -4.55, 1.67, 0.2862),
}


def make(name: str, real_data: Path, folder: Path) -> Path:
    """Write the four files."""
    recipe = RECIPES[name]
    with np.load(real_data / "structure-only" / f"{recipe.structure}.npz") as arrays:
        parts = (arrays["adj_data"], arrays["adj_indices"], arrays["adj_indptr"])
        adjacency = sp.csr_matrix(parts, shape=arrays["adj_shape"])
        labels = arrays["labels"]
    adjacency = ((adjacency + adjacency.T) != 0).astype(np.float32).tolil()
    adjacency.setdiag(0)
    adjacency = adjacency.tocsr()
    adjacency.eliminate_zeros()
    rng = np.random.default_rng(0)
    noise = rng.normal(0, recipe.deviation, (labels.size, recipe.features))
    features = noise.clip(-1.2, 1.2).astype(np.float32)
    features[0, 0], features[1, 0] = recipe.lowest, recipe.highest
    degrees = np.diff(adjacency.indptr).astype(np.int64)
    write_folder(
        folder,
        adjacency=adjacency,
        features=features,
        labels=labels,
        split=grb_split(degrees),
        compress=False,
    )
    return folder


def zipped(folder: Path, inside: str) -> bytes:
    """Return an archive of a directory's files below `inside`."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, f"{inside}/{path.name}")
    return buffer.getvalue()
