"""Time and memory of making and of loading graphs of GRB's larger sizes.

    python -m benchmarks.datasets [--preset reddit] [--home FOLDER]

Each step runs in a process of its own: the graph is made, written and loaded from its folder, and
split again. Memory is the peak after the imports, minus what there was before; `ratio` is that of
loading over the size of what was loaded: features, edges and labels. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.processes import alone

PRESETS = ("flickr", "reddit", "aminer")
MIB = 2**20


def peak() -> int:
    """Return the peak resident bytes of this process."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def generation(name: str, home: Path) -> dict[str, float]:
    """Measure drawing the graph and writing its folder: seconds and MiB."""
    from benchmarks.synthetic import prepare

    before, begin = peak(), time.perf_counter()
    prepare(name, home)
    seconds = time.perf_counter() - begin
    return {"seconds": round(seconds, 1), "peak_mib": round((peak() - before) / MIB)}


def loading(name: str, home: Path) -> dict[str, float]:
    """Measure reading, checking and normalising the folder, and GRB's split: seconds and MiB."""
    import torch

    import grb_check.datasets.reading.four_files  # noqa: F401  (before the measurement)
    from grb_check.datasets import find, load
    from grb_check.datasets.splits import grb_split

    before, begin = peak(), time.perf_counter()
    dataset = load(find(str(home / name)))
    loaded = time.perf_counter()
    degrees = torch.bincount(dataset.graph.edge_index[0], minlength=dataset.num_nodes)
    grb_split(degrees.numpy())
    graph, taken = dataset.graph, peak() - before
    size = sum(t.numel() * t.element_size() for t in (graph.x, graph.edge_index, graph.y))
    return {
        "seconds": round(loaded - begin, 1),
        "split_seconds": round(time.perf_counter() - loaded, 1),
        "peak_mib": round(taken / MIB),
        "arrays_mib": round(size / MIB),
        "ratio": round(taken / size, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", choices=PRESETS, action="append", help="all by default")
    parser.add_argument("--home", type=Path, help="a new or empty folder; default: temporary")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        home = options.home or Path(temporary)
        figures = {
            name: {
                "generation": alone(generation, name, home),
                "loading": alone(loading, name, home),
            }
            for name in (f"synthetic-{preset}" for preset in options.preset or PRESETS)
        }
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
