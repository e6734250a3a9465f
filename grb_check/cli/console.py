"""Terminal output of the commands, without control characters of the files that they read."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from typing import Final

from grb_check.datasets import Places
from grb_check.datasets.download.sources import named_sources
from grb_check.datasets.source import HOME_VARIABLE, SPLIT_RULES, expanded
from grb_check.errors import UsageError
from grb_check.files.text import fit, fit_line

DATASET: Final = "a name of the list, a path, pyg:CLASS/NAME, or pkg.module:function"
# Messages name pytest's options, which have other names here.
_OTHER_NAMES: Final = {
    ", or the option --grb-download": "",
    "the ini value grb_sources": "--source",
    "--grb-": "--",
}
OK: Final = 0
FAILED: Final = 1
LOST: Final = 3
WRONG_INPUT: Final = 4
NO_CASES: Final = 5
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where datasets come from, and their names for messages."""
    parser.set_defaults(words=in_own_words)
    parser.add_argument(
        "--data", metavar="DIR", action="append", default=[], help="folder to look in; repeatable"
    )
    parser.add_argument(
        "--into",
        metavar="DIR",
        help=f"folder of downloads and checksums (default: ${HOME_VARIABLE}, else in the cache)",
    )
    parser.add_argument(
        "--source",
        metavar="[NAME=]URL",
        action="append",
        default=[],
        help="where to download from; {name} in it is replaced, 'default' is the built-in list",
    )


def add_split_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how a dataset is split."""
    parser.add_argument(
        "--split",
        choices=SPLIT_RULES,
        help="GRB's split by degree, or the one of the dataset (default for your own that has one)",
    )


def places_of(options: argparse.Namespace) -> Places:
    """Return where datasets come from, and how they are split.

    Raises:
        UsageError: a folder is not a directory, or a source is unknown.
    """
    given = tuple(map(expanded, options.data))
    for folder in given:
        if not os.path.isdir(folder):
            raise UsageError(f"--data: {str(folder)!r} is not a directory; give one with datasets")
    places = Places(folders=given, sources=named_sources(options.source or None))
    home = expanded(options.into) if options.into else places.home
    if os.path.exists(home) and not os.path.isdir(home):
        raise UsageError(f"the data folder {str(home)!r} is not a directory; give one with --into")
    return replace(places, home=home, split=getattr(options, "split", None))


def in_own_words(message: object) -> str:
    """Return a message with the options as the commands call them."""
    text = str(message)
    for theirs, ours in _OTHER_NAMES.items():
        text = text.replace(theirs, ours)
    return text


def say(*lines: str) -> None:
    """Write lines to standard output.

    Characters that its encoding lacks, as that of a pipe on Windows, are escaped, as Python does on
    standard error.
    """
    text = "".join(f"{fit_line(line)}\n" for line in lines)
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def tell(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{fit_line(text)}\n")
    sys.stderr.flush()


def note(text: str) -> None:
    """Write a note to standard error."""
    tell(f"note: {text}")


def command(line: str) -> None:
    """Write a workflow command of GitHub Actions, see `annotations`, which `say` would undo."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def complain(error: object) -> None:
    """Write an error to standard error; that of a user's code has several lines."""
    sys.stderr.write(f"grb_check: {fit(error)}\n")
    sys.stderr.flush()
