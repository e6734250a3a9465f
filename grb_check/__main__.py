"""`python -m grb_check`: datasets, leaderboards and reports, outside pytest."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from grb_check import __version__
from grb_check.cli import datasets, fetch, info, leaderboard, lock, merge, power, replay, report
from grb_check.cli.places import FAILED, complain, in_own_words
from grb_check.datasets import DataNotice
from grb_check.errors import GrbCheckError
from grb_check.evaluation.store import StoreWarning

COMMANDS: Final = (datasets, info, fetch, lock, leaderboard, report, merge, power, replay)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: of the command line; None for those of this process.

    Returns:
        The exit code of the command; 1 if it raised an error of ours. argparse ends the process
        with 2 if it refuses the arguments.
    """
    options = _parser().parse_args(arguments)
    with _plain_warnings():
        try:
            code: int = options.run(options)
        except GrbCheckError as error:
            complain(error)
            return FAILED
        except BrokenPipeError:  # the reader of the pipe stopped reading
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - or the interpreter complains at exit
            return FAILED
        except KeyboardInterrupt:
            sys.stderr.write("grb_check: interrupted; what was downloaded is kept\n")
            return FAILED
        return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m grb_check",
        description="Datasets, leaderboards and reports of grb_check.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"grb_check {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        about = module.__doc__ or ""
        name = module.__name__.rpartition(".")[2]
        sub = commands.add_parser(name, help=about.partition("\n")[0], description=about)
        module.add_options(sub)
        sub.set_defaults(run=module.run)
    return parser


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Write notices without source lines, and none of the warnings of libraries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", DataNotice)
        warnings.simplefilter("always", StoreWarning)
        warnings.showwarning = _show
        yield


def _show(message: Warning | str, *_: object, **__: object) -> None:
    sys.stderr.write(f"note: {in_own_words(message)}\n")


if __name__ == "__main__":
    sys.exit(main())
