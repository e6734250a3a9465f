"""Datasets by name or path. Importing this loads neither numpy nor torch; `load` does.

May import `errors`, `user_code` and `files`. May be imported by every later package.
"""

from __future__ import annotations

from grb_check.datasets.catalogue import (
    GRAPH_SETS,
    anchored,
    find,
    known_names,
    load,
    load_either,
    load_graph_set,
)
from grb_check.datasets.source import DataNotice, Places, Source

__all__ = [
    "GRAPH_SETS",
    "DataNotice",
    "Places",
    "Source",
    "anchored",
    "find",
    "known_names",
    "load",
    "load_either",
    "load_graph_set",
]
