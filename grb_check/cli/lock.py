"""Accept the files of a dataset, as they are now, as the right ones."""

from __future__ import annotations

import argparse

from grb_check import datasets
from grb_check.cli import console
from grb_check.cli.console import say
from grb_check.datasets.lock import LOCK_FILE


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("dataset", metavar="DATASET", help=console.DATASET)
    console.add_options(parser)


def run(options: argparse.Namespace) -> int:
    """Record the checksums."""
    from grb_check.datasets.loading import accept  # imports torch, which --help does not need

    searched = console.places_of(options)
    key = accept(datasets.find(options.dataset, searched))
    say(f"{key}: checksums recorded in {searched.home / LOCK_FILE}")
    return 0
