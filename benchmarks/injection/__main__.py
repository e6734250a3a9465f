"""Strength, speed and memory of the injection attacks, beside grb 0.1.0 from PyPI.

    python -m benchmarks.injection strength --data FOLDER [--white-box]
    python -m benchmarks.injection peer --data FOLDER
    python -m benchmarks.injection scale [--out FOLDER]
    python -m benchmarks.injection curves --data FOLDER --out FOLDER
    python -m benchmarks.injection repeats --data FOLDER
    python -m benchmarks.injection adaptive [--cases]

Each command writes one JSON object a line as figures come in, then a table in Markdown.
"""

from __future__ import annotations

from benchmarks.command import run
from benchmarks.injection import adaptive, curves, peer, repeats, scale, strength

COMMANDS = {
    "strength": strength,
    "peer": peer,
    "scale": scale,
    "curves": curves,
    "repeats": repeats,
    "adaptive": adaptive,
}

if __name__ == "__main__":
    run(__spec__.parent, __doc__, COMMANDS)
