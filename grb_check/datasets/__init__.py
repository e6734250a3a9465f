"""Datasets by name or folder. Importing this loads neither numpy nor torch; `load` does."""

from __future__ import annotations

from grb_check.datasets.catalogue import (
    GRAPH_SETS,
    Source,
    anchored,
    find,
    known_names,
    load,
    load_either,
    load_graph_set,
)
from grb_check.datasets.notice import DataNotice
from grb_check.datasets.places import Places

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
