"""The package runs on systems other than the one that runs the tests; `make lint` checks more."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from windows_names import refused

import grb_check

PACKAGE = Path(grb_check.__file__).parent
# Standard modules that Windows lacks.
UNIX = {"curses", "fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "termios", "tty"}


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def test_nothing_is_imported_that_windows_lacks() -> None:
    """Also not in a function: none is needed."""
    for path in PACKAGE.rglob("*.py"):
        assert UNIX.isdisjoint(_imported(ast.parse(path.read_text("utf-8")))), path


def test_names_of_files_in_the_package_are_portable() -> None:
    """A wheel can be installed on Windows and macOS, where upper and lower case are the same."""
    files = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*")]
    assert not [path for path in files if refused(path.name)]
    assert len({str(path).lower() for path in files}) == len(files)
