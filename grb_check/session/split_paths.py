"""Options whose value is a word of its own, which pytest may take for a path of tests."""

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
from grb_check.settings.settings import OPTIONS, PIN_FLAG

_WITH_VALUE: Final = {each.flag for each in OPTIONS if each.metavar}


def refuse_split_paths(config: pytest.Config) -> None:
    """Refuse `--grb-data DIR` in two words where that changes the run.

    pytest chooses its root directory and ini file before it knows the options of plugins, and so
    looks at the second word as at a path of tests. That is an error only if the choice differs. It
    looks for conftest.py files later, when it knows our options, unless a conftest.py has loaded
    this plugin. A word after `--grb-pin` may be a label, or a test.

    Raises:
        UsageError: names the option, what would change, and the way to write it.
    """
    if is_worker(config):  # it gets its arguments from the controller
        return
    arguments = shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))
    arguments += map(str, config.invocation_params.args)
    here = config.invocation_params.dir
    arguments = list(_with_files(arguments, here))
    for flag, value in pairwise(arguments):
        if flag == PIN_FLAG and not value.startswith("-"):
            raise UsageError(
                f"{flag} {value}: write a label in the same word, as {flag}={value}; for a pin "
                f"without a label put {flag} at the end, or before another option"
            )
    split = [
        (flag, value)
        for flag, value in pairwise(arguments)
        if flag in _WITH_VALUE and os.path.exists(here / value.partition("::")[0])
    ]
    if split and (change := _change(config, arguments, [value for _, value in split])):
        given = " ".join(f"{flag} {value}" for flag, value in split)
        fixed = " ".join(f"{flag}={value}" for flag, value in split)
        raise UsageError(f"{given}: with these as words of their own, {change}; write {fixed}")


def _with_files(arguments: Iterable[str], here: Path) -> Iterator[str]:
    """Yield the arguments, with the lines of a file for each `@FILE`, as pytest reads them."""
    for each in arguments:
        if each.startswith("@"):
            lines = (here / each[1:]).read_text(sys.getfilesystemencoding()).splitlines()
            yield from _with_files(lines, here)
        else:
            yield each


def _change(config: pytest.Config, arguments: Sequence[str], values: Sequence[str]) -> str:
    """Return what pytest does differently because of the words; empty if nothing."""
    here = config.invocation_params.dir
    root, ini_file = root_and_ini_file(arguments, here)
    true_root, true_ini_file = root_and_ini_file(_joined(arguments), here)
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
    for each in rest:
        value = next(rest, None) if each in _WITH_VALUE else None
        joined.append(each if value is None else f"{each}={value}")
    return joined
