"""The bundled set of graphs has its documented properties, and its script reproduces it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch_geometric.utils import degree, to_dense_adj

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
NAME = "SYNTHETIC-MOLECULES"
ARCHIVE = FIXTURES / "synthetic-molecules" / f"{NAME}.zip"
NITROGEN, OXYGEN = 1, 2


@pytest.fixture(scope="module")
def tables() -> dict[str, NDArray[np.int64]]:
    """The parts of the archive as arrays, read without the package."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        return {
            part: np.loadtxt(archive.open(f"{NAME}/{NAME}_{part}.txt"), np.int64, delimiter=",")
            for part in ("A", "graph_indicator", "graph_labels", "node_labels")
        }


@pytest.fixture(scope="module")
def made_again(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folders = [tmp_path_factory.mktemp("made") / str(turn) for turn in range(2)]
    for folder in folders:
        script = str(FIXTURES / "make_synthetic_molecules.py")
        subprocess.run([sys.executable, script, "--out", str(folder)], check=True)
    return [folder / ARCHIVE.name for folder in folders]


def test_counts(tables: dict[str, NDArray[np.int64]]) -> None:
    """300 graphs, half of each class, of 10 to 30 atoms of five kinds; four N and four O each."""
    sizes = np.bincount(tables["graph_indicator"])[1:]
    assert np.bincount(tables["graph_labels"]).tolist() == [150, 150]
    assert (sizes.size, sizes.min(), sizes.max()) == (300, 10, 30)
    assert set(tables["node_labels"].tolist()) == set(range(5))
    for kind in (NITROGEN, OXYGEN):
        of_kind = tables["graph_indicator"][tables["node_labels"] == kind]
        assert np.bincount(of_kind)[1:].tolist() == [4] * 300


def test_graphs_are_simple_and_connected(tables: dict[str, NDArray[np.int64]]) -> None:
    """Both directions of each bond, once; at most four at an atom; one part a graph."""
    edge_index = torch.from_numpy(tables["A"].T - 1)
    batch = torch.from_numpy(tables["graph_indicator"] - 1)
    adjacency = to_dense_adj(edge_index, batch)
    assert torch.equal(adjacency, adjacency.transpose(1, 2))
    assert adjacency.max() == 1
    assert not adjacency.diagonal(dim1=1, dim2=2).any()
    assert degree(edge_index[0]).max() <= 4
    sizes = torch.bincount(batch)
    for each, size in zip(adjacency, sizes.tolist(), strict=True):
        near = torch.eye(size) + each[:size, :size]
        assert bool((torch.linalg.matrix_power(near, size) > 0).all())


def test_classes_are_told_by_bonds(tables: dict[str, NDArray[np.int64]]) -> None:
    """Whether a nitrogen has a bond to an oxygen is right for 90 to 98 % of the graphs."""
    kinds = tables["node_labels"][tables["A"] - 1]
    contact = (kinds == [NITROGEN, OXYGEN]).all(axis=1)
    of_graphs = tables["graph_indicator"][tables["A"][contact, 0] - 1]
    guessed = np.bincount(of_graphs, minlength=301)[1:] > 0
    assert 0.90 <= (guessed == tables["graph_labels"]).mean() <= 0.98


def test_archive_is_small() -> None:
    """It travels in every wheel."""
    assert ARCHIVE.stat().st_size < 50_000


def test_script_makes_the_same_texts(made_again: list[Path]) -> None:
    """The script writes the file of the repository, member by member."""
    with zipfile.ZipFile(ARCHIVE) as kept, zipfile.ZipFile(made_again[0]) as made:
        assert kept.namelist() == made.namelist()
        for member in kept.namelist():
            assert kept.read(member) == made.read(member)


def test_script_writes_the_same_bytes_each_time(made_again: list[Path]) -> None:
    """No clock, user or platform gets into the archive; zlib's version alone may change it."""
    assert made_again[0].read_bytes() == made_again[1].read_bytes()
