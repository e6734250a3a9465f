"""A graph of any size, with a heavy tail of degrees."""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks.rows import Row
from benchmarks.synthetic import DegreeShape, Preset, degree_sequence, generate, write


def make_custom(nodes: int, edges: int, home: Path) -> Row:
    """Make a graph of 100 features and 18 classes with a heavy tail of degrees."""
    folder = home / f"synthetic-{nodes}-{edges}"
    if not folder.exists():
        write(generate(custom_preset(nodes, edges), 0), folder)
    return {"folder": str(folder)}


def custom_preset(nodes: int, edges: int) -> Preset:
    """Return a preset; of 100,000 nodes and 500,000 edges: median degree 4, 75 % homophily."""
    classes = 18
    sizes = (nodes - (classes - 1) * (nodes // classes), *[nodes // classes] * (classes - 1))

    def preset(centre: float) -> Preset:
        return Preset(
            name=f"synthetic-{nodes}-{edges}",
            class_sizes=sizes,
            num_edges=edges,
            num_features=100,
            degrees=DegreeShape(centre=centre, below=0.7, above=1.28, tail=0.05),
            homophily=0.74,
            misplaced=0.0,
            signal=0.1,
            noise=0.55,
        )

    # Rounding aside, the sum of the degrees is proportional to exp(centre).
    expected, total = 2.05 * edges, float(degree_sequence(preset(1.4)).sum())
    return preset(1.4 + math.log(expected / total))
