"""Time and peak memory of GCA's contrastive loss and its gradient, in tiles, one process a size."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from typing import Final

import torch

from benchmarks.memory import peak_mib, reset_peak
from benchmarks.processes import alone
from benchmarks.rows import Row, markdown
from grb_check.models.contrastive.info_nce import TILE, info_nce

COLUMNS: Final = (
    "nodes",
    "width",
    "tile",
    "threads",
    "loss",
    "forward seconds",
    "backward seconds",
    "loaded MiB",
    "peak MiB",
    "three dense matrices MiB",
    "error",
)
DENSE: Final = 3  # similarities between the views and inside each
BYTES: Final = 4
MIB: Final = 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, nargs="+", default=[169_343], help="of ogbn-arxiv")
    parser.add_argument("--width", type=int, default=256, help="of the embeddings")
    parser.add_argument("--tile", type=int, default=TILE, help="rows and columns at one time")
    parser.add_argument("--temperature", type=float, default=0.4)
    parser.add_argument("--threads", type=int, default=1)


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each number of nodes."""
    for nodes in options.nodes:
        size = (nodes, options.width, options.tile)
        yield {
            "nodes": nodes,
            "width": options.width,
            "tile": options.tile,
            "threads": options.threads,
            "three dense matrices MiB": round(DENSE * BYTES * nodes**2 / MIB),
            **alone(measure, *size, options.temperature, options.threads),
        }


def table(rows: Sequence[Row]) -> str:
    """Return one line for each row."""
    return markdown(rows, COLUMNS)


def measure(nodes: int, width: int, tile: int, temperature: float, threads: int) -> Row:
    """Measure loss and gradient of random embeddings; the second view is near the first."""
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(nodes, width, generator=generator)
    second = first + torch.randn(nodes, width, generator=generator)
    first.requires_grad_()
    second.requires_grad_()
    loaded = peak_mib()
    reset_peak()
    begin = time.perf_counter()
    loss = info_nce(first, second, temperature=temperature, tile=tile)
    middle = time.perf_counter()
    torch.autograd.backward(loss)
    end = time.perf_counter()
    return {
        "loss": round(float(loss.detach()), 4),
        "forward seconds": round(middle - begin, 2),
        "backward seconds": round(end - middle, 2),
        "loaded MiB": loaded,
        "peak MiB": peak_mib(),
    }
