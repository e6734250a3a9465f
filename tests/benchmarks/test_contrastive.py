"""The contrastive benchmark measures correctly, and continues an interrupted run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny import write_dataset

from benchmarks.command import Command
from benchmarks.contrastive import measuring
from benchmarks.contrastive.__main__ import COMMANDS
from benchmarks.rows import Row

STAND_INS = """
import torch
from torch_geometric.nn import GCNConv, global_add_pool

import grb_check


class Net(torch.nn.Module):
    def __init__(self, num_features, width):
        super().__init__()
        self.layer = GCNConv(num_features, width)

    def forward(self, x, edge_index, edge_weight=None):
        return self.layer(x, edge_index, edge_weight)


def encoder(num_features):
    return grb_check.Encoder(Net(num_features, 8), pretrain=lambda data: data.x.sum())


def finished(num_features):
    return grb_check.Encoder(Net(num_features, 8).eval())


def gcn_kipf(num_features, num_classes):
    module = Net(num_features, num_classes)

    def fit(data, validation=None):
        assert validation is not None

    return grb_check.SelfTrained(module, fit)


class Pooled(Net):
    def forward(self, x, edge_index, batch):
        return global_add_pool(self.layer(x, edge_index), batch)


def graph_gcn(num_features, num_classes):
    return grb_check.SelfTrained(Pooled(num_features, num_classes), lambda data: data.num_graphs)


def broken(num_features):
    return grb_check.Encoder(Net(num_features, 8), pretrain=lambda data: 1 / 0)
"""


@pytest.fixture
def nodes() -> Command:
    return COMMANDS["nodes"]


@pytest.fixture
def in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring without a process for each column; the stand-ins can be imported."""
    (tmp_path / "contrastive_stand_ins.py").write_text(STAND_INS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "contrastive_stand_ins", raising=False)
    write_dataset(tmp_path / "tiny")

    def here(step: Callable[..., Row], *args: object) -> Row:
        try:
            return step(*args)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}

    monkeypatch.setattr(measuring, "alone", here)


def options_of(benchmark: Command, line: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    benchmark.add_arguments(parser)
    return parser.parse_args(line.split())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests, so that the harness's own models are trained once."""
    return tmp_path_factory.mktemp("store")


def write_paths_and_rings(folder: Path, graphs: int = 40, size: int = 6) -> None:
    """A set of graphs in TUDataset's text files, under a name that the project knows."""
    first = [size * graph + node for graph in range(graphs) for node in range(1, size)]
    pairs = [(node, node + 1) for node in first]
    pairs += [(size * graph + size, size * graph + 1) for graph in range(0, graphs, 2)]
    parts = {
        "A": [f"{i}, {j}" for pair in pairs for i, j in (pair, pair[::-1])],
        "graph_indicator": [str(node // size + 1) for node in range(size * graphs)],
        "graph_labels": [str(graph % 2) for graph in range(graphs)],
        "node_labels": [str(node % 2) for node in range(size * graphs)],
    }
    folder.mkdir(parents=True)
    for part, lines in parts.items():
        (folder / f"MUTAG_{part}.txt").write_text("\n".join(lines) + "\n")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::grb_check.datasets.DataNotice")
def test_sets_of_graphs_are_measured_in_the_same_way(
    in_process: None, tmp_path: Path, store: Path
) -> None:
    """Targets are the graphs of the test set."""
    graphs = COMMANDS["graphs"]
    write_paths_and_rings(tmp_path / "tu" / "MUTAG" / "raw")
    options = options_of(
        graphs,
        f"--data {tmp_path} --datasets MUTAG --models contrastive_stand_ins:graph_gcn --seeds 1 "
        f"--attacks modification/random-flips --store {store} --out {tmp_path}/out.jsonl",
    )
    (row,) = graphs.rows(options)
    assert (row["task"], row["dataset"], row["targets"]) == ("graphs", "mutag", 8)
    assert sum(row["spent"].values()) <= 8  # each has 5 or 6 edges, and so a budget of 1
    assert row["pretraining_seconds"] >= 0
    assert "contrastive_stand_ins:graph_gcn" in graphs.table([row])
