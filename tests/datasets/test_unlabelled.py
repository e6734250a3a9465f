"""Nodes without a class."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from small_graphs import community_dataset
from torch_geometric.data import Data

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.reading.pyg_graph import dataset_of_graph
from grb_check.datasets.source import DataNotice, Selection, SplitRule
from grb_check.datasets.splits import PARTS, grb_split, held_out
from grb_check.datasets.unlabelled import NO_CLASS, labelled_nodes, without_nan
from grb_check.errors import DataError

GRAPH = community_dataset().graph
NODES = GRAPH.num_nodes


def graph(y: torch.Tensor, *, masks: bool = True) -> Data:
    """The graph with other labels, and thirds of the nodes as its split."""
    data = Data(x=GRAPH.x, edge_index=GRAPH.edge_index, y=y)
    for number, part in enumerate(("train", "val", "test") if masks else ()):
        data[f"{part}_mask"] = torch.arange(NODES) % 3 == number
    return data


def read(data: Data, split: SplitRule | None = None, number: int = 0) -> Dataset:
    return dataset_of_graph(
        data, name="d", origin="o", where="w", split=split, selection=Selection(number)
    )


@pytest.mark.parametrize("split", ["grb", "given"])
@pytest.mark.parametrize("missing", [-1, float("nan")])
def test_they_stay_in_the_graph_and_are_in_no_part_of_the_split(
    split: SplitRule, missing: float
) -> None:
    """All edges stay, and a notice counts them."""
    y = GRAPH.y.float() if missing != missing else GRAPH.y.clone()
    y[:30] = missing
    with pytest.warns(DataNotice, match=rf"30 of {NODES} nodes have no class"):
        dataset = read(graph(y), split)
    assert torch.equal(dataset.graph.edge_index, GRAPH.edge_index)
    parts = torch.cat([dataset.train, dataset.val, dataset.test["full"]])
    assert int(parts.min()) >= 30
    assert torch.equal(dataset.graph.y[30:], GRAPH.y[30:])
    assert set(dataset.graph.y[:30].tolist()) == {NO_CLASS}
    assert dataset.num_classes == 3


def test_grbs_split_of_some_nodes_is_that_of_their_degrees() -> None:
    """With all of them it is GRB's own."""
    degrees = np.bincount(GRAPH.edge_index[0].numpy(), minlength=NODES)
    among = np.arange(10, NODES)
    part, alone = grb_split(degrees, among=among), grb_split(degrees[10:])
    for name in PARTS:
        np.testing.assert_array_equal(getattr(part, name), getattr(alone, name) + 10)
    whole = grb_split(degrees, among=np.arange(NODES))
    np.testing.assert_array_equal(whole.train, grb_split(degrees).train)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([-2, 0, 1], "labels range from -2 to 1"),
        ([-1, 1, 1], r"give \(y \+ 1\) // 2"),
        ([-1, -100, 1], "labels range from -100 to 1"),
    ],
)
def test_other_negative_numbers_are_refused(labels: list[int], words: str) -> None:
    """Two classes written as -1 and 1 too: half of them would vanish."""
    with pytest.raises(DataError, match=words):
        labelled_nodes(np.array(labels), "w")


def test_nan_among_fractions_is_refused() -> None:
    """As in a regression; whole numbers without NaN are left to the reader."""
    with pytest.raises(DataError, match="not whole numbers"):
        without_nan(np.array([0.5, float("nan")]), "w")
    whole = np.array([0.0, 1.0])
    assert without_nan(whole, "w") is whole


def test_a_tenth_of_each_class_is_held_out_where_there_is_no_validation() -> None:
    """The same nodes in each run, none of the test; the notice counts them."""
    data = graph(GRAPH.y.clone())
    del data.val_mask
    with pytest.warns(DataNotice, match="no validation nodes: .* are held out of the training"):
        first = read(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataNotice)
        second = read(data)
    assert torch.equal(first.val, second.val)
    train = data.train_mask.nonzero().squeeze(1)
    assert torch.equal(torch.cat([first.train, first.val]).sort().values, train)
    for number in range(3):
        whole = int((GRAPH.y[train] == number).sum())
        assert int((GRAPH.y[first.val] == number).sum()) == round(whole / 10)


@pytest.mark.filterwarnings("ignore::grb_check.datasets.source.DataNotice")
def test_a_few_training_nodes_give_one_and_one_gives_none() -> None:
    """So that both parts have nodes if that is possible."""
    classes = np.zeros(9, dtype=np.int64)
    train, val = held_out(np.array([2, 5, 7]), classes, "w")
    assert (train.size, val.size) == (2, 1)
    train, val = held_out(np.array([2]), classes, "w")
    assert (train.size, val.size) == (1, 0)


def test_each_of_several_splits_can_be_named() -> None:
    """By its number, from 1; the first is taken if none is named, and the origin says so."""
    data = graph(GRAPH.y.clone())
    for part in ("train", "val", "test"):
        mask = data[f"{part}_mask"]
        data[f"{part}_mask"] = torch.stack([mask, mask.roll(1)], dim=1)
    first, named, second = read(data), read(data, number=1), read(data, number=2)
    assert torch.equal(first.train, named.train)
    assert not torch.equal(first.train, second.train)
    assert "(split 1 of 2; #2 names another)" in first.origin
    assert "(split 2 of 2)" in second.origin
    with pytest.raises(DataError, match="has 2 splits, and no split 3; give a number from 1 to 2"):
        read(data, number=3)
    with pytest.raises(DataError, match="has 1 split, and no split 2"):
        read(graph(GRAPH.y.clone()), number=2)


def test_masks_of_different_numbers_of_splits_are_refused() -> None:
    """A mask of one column, or none, belongs to all splits."""
    data = graph(GRAPH.y.clone())
    data.train_mask = torch.stack([data.train_mask] * 3, dim=1)
    data.val_mask = data.val_mask[:, None]
    assert "(split 2 of 3)" in read(data, number=2).origin
    data.val_mask = data.val_mask.expand(-1, 2)
    with pytest.raises(DataError, match=r"train_mask \[\d+, 3\], val_mask \[\d+, 2\]: a split is"):
        read(data)


def test_the_training_nodes_of_the_datas_own_split_are_remembered_beside_grbs() -> None:
    """A finished model was trained on them."""
    data = graph(GRAPH.y.clone())
    assert read(data).own_training is None
    other = read(data, "grb").own_training
    assert other is not None
    assert torch.equal(other, data.train_mask.nonzero().squeeze(1))
