"""Make sure that datasets are on this machine, and are what their names promise."""

from __future__ import annotations

import argparse
from dataclasses import replace

from grb_check import datasets
from grb_check.cli.places import FAILED, add_place_options, complain, places_of, say
from grb_check.cli.places import DATASET as DATASET_HELP
from grb_check.datasets import Source
from grb_check.datasets.published import published
from grb_check.errors import GrbCheckError


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("datasets", nargs="+", metavar="DATASET", help=DATASET_HELP)
    add_place_options(parser)


def run(options: argparse.Namespace) -> int:
    """Fetch each dataset; 1 if one of them failed."""
    places = replace(places_of(options), download=True)
    result = 0
    for spec in options.datasets:
        try:
            say(f"{spec}: {_fetched(datasets.find(spec, places))}")
        except GrbCheckError as error:
            complain(error)
            result = FAILED
    return result


def _fetched(source: Source) -> str:
    if source.of_graphs:
        graphs = datasets.load_graph_set(source)
        return f"{graphs.num_graphs:,} graphs, {graphs.origin}"
    if source.kind == "rebuild":  # the command is for the original
        source = replace(source, kind="fetch", path=source.places.home / source.name)
    dataset = datasets.load(source)
    figures = f"{dataset.num_nodes:,} nodes, {dataset.num_edges:,} edges"
    agrees = ", as published" if published(dataset.name) is not None else ""
    return f"{figures}{agrees}; {dataset.origin}"
