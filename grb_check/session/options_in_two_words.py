"""The check that `--grb-data DIR` in two words does not change which files pytest reads."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from grb_check.errors import UsageError
from grb_check.session.pytest_private import is_worker, root_and_ini_file
from grb_check.settings.options import OPTIONS

_WITH_VALUE: Final = {option.flag for option in OPTIONS if option.metavar}


def refuse_options_in_two_words(config: pytest.Config) -> None:
    """Refuse `--grb-data DIR` in two words where that changes the run.

    pytest chooses its root directory and ini file before it knows the options of plugins, and so
    looks at the second word as at a path of tests. That is an error only if the choice differs. It
    looks for conftest.py files later, when it knows our options, unless a conftest.py has loaded
    this plugin.

    Raises:
        UsageError: names the option, what would change, and the way to write it.
    """
    if is_worker(config):  # it gets its arguments from the controller
        return
    arguments = shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))
    arguments += map(str, config.invocation_params.args)
    invocation_dir = config.invocation_params.dir
    arguments = list(_with_files(arguments, invocation_dir))
    split = [
        (flag, value)
        for flag, value in pairwise(arguments)
        if flag in _WITH_VALUE and os.path.exists(invocation_dir / value.partition("::")[0])
    ]
    if split and (change := _change(config, arguments, [value for _, value in split])):
        given = " ".join(f"{flag} {value}" for flag, value in split)
        fixed = " ".join(f"{flag}={value}" for flag, value in split)
        raise UsageError(f"{given}: with these as words of their own, {change}; write {fixed}")


def _with_files(arguments: Iterable[str], invocation_dir: Path) -> Iterator[str]:
    """Yield the arguments, with the lines of a file for each `@FILE`, as pytest reads them."""
    for argument in arguments:
        if argument.startswith("@"):
            lines = (
                (invocation_dir / argument[1:]).read_text(sys.getfilesystemencoding()).splitlines()
            )
            yield from _with_files(lines, invocation_dir)
        else:
            yield argument


def _change(config: pytest.Config, arguments: Sequence[str], values: Sequence[str]) -> str:
    """Return what pytest does differently because of the words; empty if nothing."""
    invocation_dir = config.invocation_params.dir
    root, ini_file = root_and_ini_file(arguments, invocation_dir)
    true_root, true_ini_file = root_and_ini_file(_joined(arguments), invocation_dir)
    if ini_file != true_ini_file:
        taken = f"would take {ini_file}" if ini_file else "would take none"
        return f"pytest {taken} as its ini file instead of {true_ini_file or 'none'}"
    if root != true_root:
        return f"pytest would take {root} as its root directory instead of {true_root}"
    early = Counter(config.known_args_namespace.file_or_dir) - Counter(config.option.file_or_dir)
    searched = ", ".join(sorted(early.keys() & set(values)))
    return f"pytest would load the conftest.py files of {searched}" if searched else ""


def _joined(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with each of our options and its value as one word."""
    joined: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        value = next(rest, None) if argument in _WITH_VALUE else None
        joined.append(argument if value is None else f"{argument}={value}")
    return joined
