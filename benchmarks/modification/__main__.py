"""Strength, speed and memory of the modification attacks, beside PyG's PRBCD and GRBCD.

    python -m benchmarks.modification adaptive --data FOLDER --datasets Cora CiteSeer --peers
    python -m benchmarks.modification curves --data FOLDER --peers
    python -m benchmarks.modification inductive --data FOLDER
    python -m benchmarks.modification black-box --data FOLDER/grb-format/planetoid-cora
    python -m benchmarks.modification victims --data FOLDER
    python -m benchmarks.modification exact --data FOLDER
    python -m benchmarks.modification small --data FOLDER
    python -m benchmarks.modification scale
    python -m benchmarks.modification physics --data FOLDER/medium/coauthor_phy.npz

Each command writes one JSON object a line as figures come in, then a table in Markdown.
"""

from __future__ import annotations

from benchmarks.command import run
from benchmarks.modification import (
    adaptive,
    black_box,
    curves,
    exact,
    inductive,
    physics,
    scale,
    small,
    victims,
)

COMMANDS = {
    "adaptive": adaptive,
    "curves": curves,
    "inductive": inductive,
    "black-box": black_box,
    "victims": victims,
    "exact": exact,
    "small": small,
    "scale": scale,
    "physics": physics,
}

if __name__ == "__main__":
    run(__spec__.parent, __doc__, COMMANDS)
