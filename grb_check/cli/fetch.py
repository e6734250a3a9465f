"""Make sure that datasets are on this machine, and are what their names promise."""

from __future__ import annotations

import argparse
from dataclasses import replace

from grb_check import datasets
from grb_check.cli import console
from grb_check.cli.console import FAILED, OK, complain, say
from grb_check.datasets import Source
from grb_check.datasets.catalogue import find_original
from grb_check.datasets.published import published
from grb_check.errors import GrbCheckError


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("datasets", nargs="+", metavar="DATASET", help=console.DATASET)
    console.add_options(parser)


def run(options: argparse.Namespace) -> int:
    """Fetch each dataset, and return 1 if one of them failed.

    Raises:
        UsageError: a name is of no dataset; nothing is fetched then.
    """
    searched = replace(console.places_of(options), download=True)
    sources = {spec: find_original(spec, searched) for spec in options.datasets}
    result = OK
    for spec, source in sources.items():
        try:
            say(f"{spec}: {_fetched(source)}")
        except GrbCheckError as error:
            complain(options.words(error))
            result = FAILED
    return result


def _fetched(source: Source) -> str:
    if source.of_graphs:
        graphs = datasets.load_graph_set(source)
        return f"{graphs.num_graphs:,} graphs, {graphs.origin}"
    dataset = datasets.load(source)
    figures = f"{dataset.num_nodes:,} nodes, {dataset.num_edges:,} edges"
    agrees = ", as published" if published(dataset.name) is not None else ""
    return f"{figures}{agrees}; {dataset.origin}"
