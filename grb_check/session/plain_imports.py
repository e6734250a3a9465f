"""Imports of this package as Python makes them, without pytest's rewriting of assertions.

pytest parses and rewrites each module of an installed plugin when it is imported, and keeps the
result in a cache that a fresh machine, as of a CI job, does not have. That takes seconds before
anything is trained, and assertions in this package are for its developers.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Final

import pytest

PACKAGE: Final = __name__.partition(".")[0]


class PlainFinder:
    """A finder for `sys.meta_path` of the modules of this package alone."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module of this package is; None for any other, which others find."""
        return PathFinder.find_spec(name, path, target) if name.startswith(f"{PACKAGE}.") else None


def import_plainly(config: pytest.Config) -> None:
    """Import this package without rewriting until the session ends."""
    sys.meta_path.insert(0, PlainFinder)
    config.add_cleanup(partial(sys.meta_path.remove, PlainFinder))
