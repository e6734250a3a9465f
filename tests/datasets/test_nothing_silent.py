"""All readers, with odd data: what differs between what went in and what comes out is listed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch_geometric.data import Data

from grb_check.datasets import Places, find
from grb_check.datasets.graph_dataset import AnyDataset, GraphDataset
from grb_check.datasets.splits import grb_split
from grb_check.datasets.views import as_given, training_view
from grb_check.evaluation.changes import changes_of
from grb_check.evaluation.dataset_cache import DatasetCache, load_cache
from grb_check.store.store import Store

SIZE = 24
EDGES = np.array([[k, (k + 1) % SIZE] for k in range(SIZE)]).T
BOTH = np.concatenate([EDGES, EDGES[::-1]], axis=1)
# Each oddity: the words that name it in the list of changes, of readers that change it.
WORDS = {
    "loops": "self-loop",
    "one-way": "one-way",
    "twice": ("duplicate", "parallel"),
    "double": "features cast from float64",
    "half": "features cast from float16",
    "whole": "features cast from int",
    "unlabelled": "no class",
    "no-validation": "held out",
    "more": "not passed to models: place",
    "sparse": "sparse features made dense",
    "one-hot": "y read from one-hot rows",
    "column": "y read from one column",
    "small": "y cast from uint8",
    "marks": "test_mask cast from int64 to bool",
}
# Of these an array can have one.
EXCLUSIVE = (("whole", "double", "half"), ("unlabelled", "one-hot", "column", "small"))


def edges_with(oddities: set[str]) -> NDArray[np.int64]:
    edges = BOTH[:, :-3] if "one-way" in oddities else BOTH
    if "twice" in oddities:
        edges = np.concatenate([edges, edges[:, :2]], axis=1)
    if "loops" in oddities:
        edges = np.concatenate([edges, np.array([[0, 5], [0, 5]])], axis=1)
    return edges


def parts(oddities: set[str]) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
    """Features and labels."""
    x = np.random.default_rng(0).normal(size=(SIZE, 3))
    kinds = {"whole": "int64", "double": "float64", "half": "float16"}
    kind = next((kinds[name] for name in kinds if name in oddities), "float32")
    y = np.arange(SIZE) % 2
    if "unlabelled" in oddities:
        y[[1, 2]] = -1
    return (3 * x if kind == "int64" else x).astype(kind), y


def data_of(oddities: set[str]) -> Data:
    x, y = parts(oddities)
    order = torch.arange(SIZE)
    data = Data(
        x=torch.from_numpy(x),
        edge_index=torch.from_numpy(edges_with(oddities)),
        y=torch.from_numpy(y),
        train_mask=order < 12,
        val_mask=(order >= 12) & (order < 15),
        test_mask=order >= 15,
    )
    if "no-validation" in oddities:
        del data.val_mask
    if "more" in oddities:
        data.place = order
    if "marks" in oddities:
        data.test_mask = data.test_mask.long()
    if "sparse" in oddities:
        data.x = data.x.to_sparse()
    data.y = classes(data.y, oddities)
    return data


def classes(y: torch.Tensor, oddities: set[str]) -> torch.Tensor:
    """Class numbers in another form."""
    if "one-hot" in oddities:
        return torch.eye(2, dtype=torch.int64)[y]
    if "column" in oddities:
        return y[:, None]
    return y.to(torch.uint8) if "small" in oddities else y


def function_of(make: Callable[[set[str]], object]) -> Callable[[set[str], Path], str]:
    """A function that makes a module with the data."""

    def write(oddities: set[str], folder: Path) -> str:
        module = ModuleType("silent")
        module.data = lambda: make(oddities)  # type: ignore[attr-defined]
        sys.modules["silent"] = module
        return "silent:data"

    return write


def pt_file_of(make: Callable[[set[str]], object]) -> Callable[[set[str], Path], str]:
    """A function that writes a .pt file with the data."""

    def write(oddities: set[str], folder: Path) -> str:
        torch.save(make(oddities), folder / "data.pt")
        return str(folder / "data.pt")

    return write


def of_npz(oddities: set[str], folder: Path) -> str:
    x, y = parts(oddities)
    matrix = matrix_of(oddities)
    arrays = {
        f"adj_{part}": np.asarray(getattr(matrix, part))
        for part in ("data", "indices", "indptr", "shape")
    }
    np.savez(folder / "graph.npz", **arrays, attr_matrix=x, labels=y)
    return str(folder / "graph.npz")


def of_four_files(oddities: set[str], folder: Path) -> str:
    x, y = parts(oddities)
    split = grb_split(np.full(SIZE, 2), 0)
    levels = {f"index_test_{name}": getattr(split, name) for name in ("easy", "medium", "hard")}
    target = folder / "four"
    target.mkdir(exist_ok=True)
    sp.save_npz(target / "adj.npz", sp.csr_matrix(matrix_of(oddities)))
    np.savez(target / "features.npz", data=x)
    np.savez(target / "labels.npz", data=y)
    index = {"index_train": split.train, "index_val": split.val, "index_test": split.full}
    np.savez(target / "index.npz", **index, **levels)
    return str(target)


def matrix_of(oddities: set[str]) -> sp.csr_array:
    rows, columns = edges_with(oddities)
    order = np.argsort(rows, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=SIZE))])
    ones = np.ones(rows.size, np.float32)
    return sp.csr_array((ones, columns[order], indptr), shape=(SIZE, SIZE))


def set_of(oddities: set[str]) -> list[Data]:
    """Six copies of the graph, which are in one part of the split each."""
    graphs = []
    for index in range(6):
        graph = data_of(oddities)
        for part in ("train", "val", "test"):
            graph[f"{part}_mask"] = None
        parts = ["train", "train", "val", "train", "test", "test"]
        held_out = "no-validation" in oddities
        graph.y = classes(torch.tensor([index % 2]), oddities)
        graph.split = parts[index].replace("val", "train" if held_out else "val")
        graphs.append(graph)
    return graphs


def of_tu_files(oddities: set[str], folder: Path) -> str:
    """Ten copies of the graph; one-way edges are an error."""
    files = {
        "A": [
            f"{row + 1 + SIZE * k}, {column + 1 + SIZE * k}"
            for k in range(10)
            for row, column in edges_with(oddities).T
        ],
        "graph_indicator": np.arange(1, 11).repeat(SIZE),
        "graph_labels": np.arange(10) % 2,
        "node_attributes": [", ".join(map(repr, map(float, row))) for row in parts(set())[0]] * 10,
    }
    for name, lines in files.items():
        (folder / f"ODD_{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    return str(folder)


def loaded(text: str, folder: Path) -> DatasetCache:
    source = find(f"odd={text}", Places(features="given", home=folder / "home"))
    return load_cache(source, Store(None), torch.device("cpu"))


FORMS = {"sparse", "one-hot", "column", "small", "marks"}  # of the tensors of a `Data`
OF_USERS = {"no-validation", "more", "unlabelled", *FORMS}  # what others refuse or cannot have
READERS: dict[str, tuple[Callable[[set[str], Path], str], set[str]]] = {
    "function": (function_of(data_of), {*WORDS}),
    "pt": (pt_file_of(data_of), {*WORDS}),
    "npz": (of_npz, {*WORDS} - {"no-validation", "more", *FORMS}),
    "four-files": (of_four_files, {*WORDS} - OF_USERS),
    "set": (function_of(set_of), {*WORDS} - {"unlabelled", "marks"}),
    "pt-set": (pt_file_of(set_of), {*WORDS} - {"unlabelled", "marks"}),
    "tu": (of_tu_files, {"loops", "twice"}),
}


@pytest.mark.filterwarnings("ignore::grb_check.datasets.source.DataNotice")
@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=12)
@given(data=st.data())
def test_the_list_names_what_differs_and_nothing_else(
    reader: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever the oddities, one or several."""
    write, possible = READERS[reader]
    oddities = data.draw(st.sets(st.sampled_from(sorted(possible))))
    for kinds in EXCLUSIVE:
        first = next((name for name in kinds if name in oddities), "")
        oddities -= {*kinds} - {first}
    folder = tmp_path_factory.mktemp("odd")
    cache = loaded(write(oddities, folder), folder)
    dataset = cache.harness.dataset
    changes = "; ".join(changes_of(dataset, cache.repaired, None))
    for name, words in WORDS.items():
        named = any(word in changes for word in ([words] if isinstance(words, str) else words))
        assert named == (name in oddities), (name, changes)
    assert_accounted(dataset, oddities)


def assert_accounted(dataset: AnyDataset, oddities: set[str]) -> None:
    """Nothing else differs: features, edges and labels are those that went in."""
    x, y = parts(oddities)
    if isinstance(dataset, GraphDataset):
        expected = edges_with(oddities) if dataset.user_graphs else BOTH  # TU's are repaired
        for graph in as_given(training_view(dataset)).to_data_list():
            assert np.array_equal(graph.x.numpy(), x.astype(np.float32))
            assert sorted(graph.edge_index.T.tolist()) == sorted(expected.T.tolist())
        return
    assert np.array_equal(dataset.graph.x.numpy(), x.astype(np.float32))
    assert np.array_equal(dataset.graph.y.numpy(), y)
    pairs = {tuple(sorted(pair)) for pair in edges_with(oddities).T.tolist() if pair[0] != pair[1]}
    both = sorted([*pairs, *(pair[::-1] for pair in pairs)])
    assert sorted(map(tuple, dataset.graph.edge_index.T.tolist())) == both
    if dataset.given_edges is not None:
        seen = dataset.given_edges.seen(dataset.graph.edge_index, SIZE).edge_index
        assert sorted(seen.T.tolist()) == sorted(edges_with(oddities).T.tolist())
