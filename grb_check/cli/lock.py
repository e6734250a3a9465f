"""Accept the files of a dataset, as they are now, as the right ones."""

from __future__ import annotations

import argparse

from grb_check import datasets
from grb_check.cli.places import DATASET, add_place_options, places_of, say
from grb_check.datasets.loading import accept
from grb_check.datasets.lock import LOCK_FILE


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("dataset", metavar="DATASET", help=DATASET)
    add_place_options(parser)


def run(options: argparse.Namespace) -> int:
    """Record the checksums."""
    places = places_of(options)
    key = accept(datasets.find(options.dataset, places))
    say(f"{key}: checksums recorded in {places.home / LOCK_FILE}")
    return 0
