"""Modules that are imported before runs of pytest in this process.

Such runs forget the modules that they import, and torch cannot be imported twice; hypothesis takes
seconds. A package keeps its first modules as attributes, so that of one that is imported again
parts are the old ones. PyG writes a module for a convolution when the first one is made, which
torch.compile looks up. msgspec reads the annotations of a module when a file is first read. The
backport of importlib.metadata, which dask asks for on Python 3.10 and 3.11, takes the place of the
standard library's finder of packages; forgotten, it leaves none, and pytest finds no plugin.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil

from torch_geometric.nn import GCNConv, SAGEConv

import grb_check
from grb_check.attacks.registry import attack_names, load_attack

_PRELOADED = (
    "scipy.special",
    "torch_geometric.nn",
    "hypothesis.internal.observability",
)
for _name in _PRELOADED:
    importlib.import_module(_name)
if importlib.util.find_spec("importlib_metadata") is not None:
    importlib.import_module("importlib_metadata")
for _module in pkgutil.walk_packages(grb_check.__path__, "grb_check."):
    if not _module.name.endswith("__main__"):
        importlib.import_module(_module.name)
for _pair in attack_names():
    load_attack(*_pair)
for _conv in (GCNConv, SAGEConv):
    _conv(1, 1)
