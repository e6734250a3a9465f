"""Terminal output of the commands, without control characters of the files that they read."""

from __future__ import annotations

import sys

from grb_check.files.control_characters import fit, fit_line


def say(*lines: str) -> None:
    """Write lines to standard output.

    Characters that its encoding lacks, as that of a pipe on Windows, are escaped, as Python does on
    standard error.
    """
    text = "".join(f"{fit_line(each)}\n" for each in lines)
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
