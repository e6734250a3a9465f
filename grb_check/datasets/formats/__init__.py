"""One file for each format of datasets, and the table of them.

A new format is a file that defines a `Format`, and a row below; messages follow. Each of its
`names` needs a row in `paper_figures/datasets.json`. The help of `--grb-dataset` and
docs/reference/datasets.md list formats by hand. The file imports numpy, torch and
`datasets.reading` inside functions only, because test cases are collected without them.
"""

from __future__ import annotations

from typing import Final

from grb_check.datasets.formats.bundled import BUNDLED, BUNDLED_SET
from grb_check.datasets.formats.grb_files import GRB_FILES
from grb_check.datasets.formats.npz_graph import NPZ_GRAPH
from grb_check.datasets.formats.ogb import OGB
from grb_check.datasets.formats.planetoid import PLANETOID
from grb_check.datasets.formats.pt_file import PT_FILE
from grb_check.datasets.formats.pyg import PYG
from grb_check.datasets.formats.rebuilt import REBUILT
from grb_check.datasets.formats.tu_dataset import TU_DATASET
from grb_check.datasets.formats.tu_folder import TU_FOLDER
from grb_check.datasets.formats.user_data import USER_DATA
from grb_check.datasets.source import Format

FORMATS: Final[tuple[Format, ...]] = (
    BUNDLED,
    TU_FOLDER,
    GRB_FILES,
    REBUILT,
    PLANETOID,
    OGB,
    BUNDLED_SET,
    TU_DATASET,
    NPZ_GRAPH,
    PT_FILE,
    PYG,
    USER_DATA,
)
"""In the order of the list of datasets, and of preference where two have found the same name."""
