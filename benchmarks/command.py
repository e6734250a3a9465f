"""The command line that all benchmarks with several commands share."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from benchmarks.rows import Row
from grb_check.errors import GrbCheckError


class Command(Protocol):
    """One command: a module, or an object."""

    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def rows(self, options: argparse.Namespace) -> Iterator[Row]: ...

    def table(self, rows: Sequence[Row]) -> str: ...


def run(package: str, description: str | None, commands: Mapping[str, Command]) -> None:
    """Run the command that `sys.argv` names: a JSON object a line, then its table in Markdown.

    Args:
        package: that `python -m` was given.
        description: for `--help`.
        commands: by name.
    """
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(
        prog=f"python -m {package}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = parser.add_subparsers(dest="command", required=True)
    for name, command in commands.items():
        command.add_arguments(
            names.add_parser(name, help=(command.__doc__ or "").replace("%", "%%"))
        )
    options = parser.parse_args()
    chosen = commands[options.command]
    rows = []
    try:
        for row in chosen.rows(options):
            rows.append(row)
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()
    except GrbCheckError as error:
        raise SystemExit(str(error)) from None
    sys.stdout.write("\n" + chosen.table(rows))
