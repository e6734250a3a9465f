"""Show the figures of a dataset beside the published ones."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from grb_check import datasets
from grb_check.cli import console
from grb_check.cli.console import say
from grb_check.datasets.lock import LOCK_FILE, recorded
from grb_check.datasets.published import compare, degrees_of
from grb_check.reports.plain import columns

if TYPE_CHECKING:
    from torch import Tensor

    from grb_check.datasets.dataset import Dataset
    from grb_check.datasets.graph_dataset import GraphSet

BAR: Final = 24  # characters of the longest bar
LEVELS: Final = ("easy", "medium", "hard")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("dataset", metavar="DATASET", help=console.DATASET)
    console.add_options(parser)
    console.add_split_option(parser)


def run(options: argparse.Namespace) -> int:
    """Write the figures, and whether the files are in the lock file."""
    searched = console.places_of(options)
    source = datasets.find(options.dataset, searched)
    if source.of_graphs:
        say(*graph_set_statistics(datasets.load_graph_set(source)))
    else:
        say(*statistics(datasets.load(source)))
    if source.format.files(source) and recorded(source.lock_key, searched.home):
        say("", f"checksums: as in {searched.home / LOCK_FILE}")
    return 0


def statistics(dataset: Dataset) -> list[str]:
    """Return the figures beside the published ones, and the degrees of the test nodes."""
    figures = compare(dataset)
    is_published = any(figure.expected for figure in figures)
    low, high = dataset.raw_feature_range
    rows = [
        [figure.name, figure.actual, figure.expected, "" if figure.agrees else "differs"]
        for figure in figures
    ]
    rows.append(["raw features", f"{low:.2f} .. {high:.2f}", "", ""])
    head = ["", "found", "published" if is_published else "(nothing published)", ""]
    return [
        f"{dataset.name}: {dataset.origin}",
        *columns([head, *rows], right=(1, 2)),
        "",
        *histogram(degrees_of(dataset), dataset.test),
    ]


def histogram(degrees: Tensor, test: Mapping[str, Tensor]) -> list[str]:
    """Return a histogram of the degrees of the test nodes, for each difficulty.

    Args:
        degrees: int64 [num_nodes].
        test: difficulty -> node ids.
    """
    values = {level: degrees[test[level].to(degrees.device)].tolist() for level in LEVELS}
    highest = max(max(level_degrees) for level_degrees in values.values())
    bins = [(0, 0), (1, 1), (2, 2)]
    while bins[-1][1] < highest:
        low = bins[-1][1] + 1
        bins.append((low, 2 * low - 2))
    counts = {
        level: [sum(low <= degree <= high for degree in level_degrees) for low, high in bins]
        for level, level_degrees in values.items()
    }
    longest = max(max(number) for number in counts.values())
    used = [index for index in range(len(bins)) if any(counts[level][index] for level in LEVELS)]
    rows = [["degree", *LEVELS]]
    for index in range(used[0], used[-1] + 1):
        low, high = bins[index]
        cells = [_bar(counts[level][index], longest) for level in LEVELS]
        rows.append([f"{low}" if low == high else f"{low}-{high}", *cells])
    return columns(rows)


def graph_set_statistics(graphs: GraphSet) -> list[str]:
    """Return the figures of a set of graphs."""
    from grb_check.datasets.graph_dataset import training_and_validation  # imports torch

    whole = graphs.graphs
    nodes = whole.ptr.diff().double()
    edges = whole.batch[whole.edge_index[0]].bincount(minlength=graphs.num_graphs) / 2
    sizes = whole.y.bincount().tolist()
    parts = (*map(len, training_and_validation(graphs)), graphs.test.numel())
    rows = [
        ["graphs", f"{nodes.numel():,}"],
        ["train / validation / test graphs", " / ".join(f"{size:,}" for size in parts)],
        ["nodes, mean", f"{float(nodes.mean()):.2f}"],
        ["nodes, largest graph", f"{int(nodes.max()):,}"],
        ["edges, mean", f"{float(edges.mean()):.2f}"],
        ["features", f"{graphs.graphs.x.shape[1]:,}"],
        ["graphs of each class", " / ".join(f"{size:,}" for size in sizes)],
    ]
    return [f"{graphs.name}: {graphs.origin}", *columns(rows, right=(1,))]


def _bar(count: int, longest: int) -> str:
    """A number and a bar of that length, of at least one mark; empty for 0."""
    return f"{'#' * -(-count * BAR // longest)} {count:,}" if count else ""
