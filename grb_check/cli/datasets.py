"""List the known datasets, and where each is or would come from."""

from __future__ import annotations

import argparse

from grb_check.cli import console
from grb_check.cli.console import say
from grb_check.session.listing import dataset_lines


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    console.add_options(parser)


def run(options: argparse.Namespace) -> int:
    """Write the list."""
    say(*dataset_lines(console.places_of(options)))
    return 0
