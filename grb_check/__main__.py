"""`python -m grb_check`: datasets, leaderboards and reports, outside pytest.

Exit codes: 0; 1 if what was asked for failed, as a case of `merge`; 4 if the command or a file that
it names is wrong, as pytest's; 130 after Ctrl-C and 141 if the reader of a pipe is gone, as in
shells. `replay` and `merge` have more, see there.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NoReturn

from grb_check import __version__
from grb_check.cli import (
    datasets,
    fetch,
    info,
    leaderboard,
    lock,
    merge,
    pack,
    replay,
    report,
)
from grb_check.cli.console import BROKEN_PIPE, INTERRUPTED, WRONG_INPUT, complain, note
from grb_check.datasets import DataNotice
from grb_check.errors import GrbCheckError, StoreWarning

COMMANDS: Final = (
    datasets,
    info,
    fetch,
    lock,
    leaderboard,
    report,
    merge,
    pack,
    replay,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: of the command line; None for those of this process.

    Returns:
        The exit code, see the top of this module. With wrong arguments argparse ends the process.
    """
    options, unknown = _parser().parse_known_args(arguments)
    if unknown:
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    with _plain_warnings(options.words):
        try:
            code: int = options.run(options)
        except GrbCheckError as error:
            complain(options.words(error))
            code = options.wrong_input
        except BrokenPipeError:  # the reader of the pipe stopped reading
            # Or the interpreter complains at exit.
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
            code = BROKEN_PIPE
        except KeyboardInterrupt:
            complain("interrupted; what was downloaded is kept")
            code = INTERRUPTED
        return code


class _Parser(argparse.ArgumentParser):
    """A parser that ends the process with the exit code of its command."""

    def error(self, message: str) -> NoReturn:
        """Write the usage and the message, and end."""
        self.print_usage(sys.stderr)
        complain(message)
        self.exit(self.get_default("wrong_input"))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m grb_check",
        description="Datasets, leaderboards and reports of grb_check.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"grb_check {__version__}")
    parser.set_defaults(wrong_input=WRONG_INPUT)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        about = module.__doc__ or ""
        name = module.__name__.rpartition(".")[2]
        sub = commands.add_parser(name, help=about.partition("\n")[0], description=about)
        sub.register("type", None, _filled)  # of arguments that have no type of their own
        sub.set_defaults(run=module.run, parser=sub, wrong_input=WRONG_INPUT, words=str)
        module.add_options(sub)
    return parser


def _filled(text: str) -> str:
    """Return the text; refuse a blank one, as of an unset variable in a script."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it was given without a value; give one or leave it out")
    return text


@contextmanager
def _plain_warnings(words: Callable[[object], str]) -> Iterator[None]:
    """Write notices without source lines, and none of the warnings of libraries.

    Args:
        words: makes them text that names the options of the command.
    """

    def show(message: Warning | str, *_: object, **__: object) -> None:
        note(words(message))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", DataNotice)
        warnings.simplefilter("always", StoreWarning)
        warnings.showwarning = show
        yield


if __name__ == "__main__":
    sys.exit(main())
