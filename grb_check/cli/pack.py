"""Write all black-box perturbations of a run into one file, for --grb-pack.

Perturbations that the store lacks are made again. Nothing is written if one differs from that of
the run, as on another kind of processor.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from grb_check.cli.console import OK, say
from grb_check.datasets.source import expanded
from grb_check.files.outputs import check_output, named_output
from grb_check.reports.record_file import read
from grb_check.settings.parsers import STORE_VARIABLE
from grb_check.store.place import StorePlace, place_of

OUT: Final = "attacks.npz"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_record", metavar="RUN.json", help="file that --grb-json wrote")
    parser.add_argument(
        "--out", metavar="FILE", default=OUT, help=f"file to write (default: {OUT})"
    )
    parser.add_argument(
        "--store",
        metavar="DIR|off",
        help=f"store of the run (default: ${STORE_VARIABLE}, else .grb_check here)",
    )
    parser.add_argument(
        "--dataset",
        metavar="NAME=PATH",
        action="append",
        default=[],
        help="dataset of the run that was given as a path or a function; repeatable",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        action="append",
        default=[],
        help="folder of datasets; repeatable (default: those of the run)",
    )
    parser.add_argument(
        "--attack",
        metavar="PKG.MODULE:ATTR",
        action="append",
        default=[],
        help="attack of yours that the run has; repeatable",
    )
    parser.add_argument(
        "--device", metavar="DEVICE", default="auto", help="torch device (default: auto)"
    )


def run(options: argparse.Namespace) -> int:
    """Write a pack."""
    out = expanded(named_output("--out", options.out))
    check_output("--out", out)
    record = read(expanded(options.run_record))
    # Imports torch, which a wrong command line does not need.
    from grb_check.cli.packing import PackSources, write

    sys.path.insert(0, str(Path.cwd()))
    making = PackSources(
        record=record,
        store=_store(options.store),
        datasets=options.dataset,
        folders=[expanded(folder) for folder in options.data],
        attacks=options.attack,
        device=options.device,
    )
    pack = write(making, out)
    say(f"{options.out}: {pack.content}, digest {pack.digest[:16]}")
    return OK


def _store(given: str | None) -> StorePlace | None:
    named = given or os.environ.get(STORE_VARIABLE) or ".grb_check"
    return None if named == "off" else place_of(named, "--store")
