"""Runs of the suite `exact`."""

from __future__ import annotations

import json

import pytest

# A square with a tail, each node of one class with its neighbours; small enough to call the model
# for every pair of nodes.
OWN = """
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, PairNorm

def graph(size=40):
    first = torch.arange(size)
    edges = torch.stack([first, (first + 2) % size])
    y = first % 2
    x = torch.stack([y.float(), 1 - y.float(), torch.ones(size)], dim=1)
    return Data(x=x, y=y, edge_index=torch.cat([edges, edges.flip(0)], dim=1))

def large():
    return graph(100)

class Gat(nn.Module):
    def __init__(self, num_features, num_classes, between=None):
        super().__init__()
        self.first, self.second = GATConv(num_features, 8), GATConv(8, num_classes)
        self.between = between or nn.Identity()
    def forward(self, x, edge_index):
        return self.second(self.between(self.first(x, edge_index).relu()), edge_index)

def gat(num_features, num_classes):
    return Gat(num_features, num_classes)

def centred(num_features, num_classes):
    return Gat(num_features, num_classes, PairNorm())
"""
ARGS = ("--grb-only", "--grb-suite=exact", "--grb-max-drop=1", "--grb-min-clean=0")


@pytest.fixture
def own(project: pytest.Pytester) -> pytest.Pytester:
    project.makepyfile(own_exact=OWN)
    return project


@pytest.mark.slow
def test_a_small_graph_is_proven(own: pytest.Pytester) -> None:
    """The record has what was found, and the note says it."""
    result = own.runpytest_subprocess(
        *ARGS,
        "--grb-dataset=own_exact:graph",
        "--grb-model=own_exact:gat",
        "--grb-json=run.json",
    )
    result.assert_outcomes(passed=2)
    case, removals = json.loads((own.path / "run.json").read_text())["cases"]
    (repeat,) = case["outcome"]["repeats"]
    found = repeat["exact"]
    assert case["id"].endswith("full/modification/any-flip")
    assert found["basis"] == "proven"
    assert found["tried"]
    assert not found["undecided"]
    assert found["proven"] <= found["right"]
    targets = case["outcome"]["targets"]
    assert repeat["victim"]["attacked"] == pytest.approx(found["proven"] / targets)
    result.stdout.fnmatch_lines([f"*{found['proven']} keep their class under every flip*"])
    (repeat,) = removals["outcome"]["repeats"]
    assert removals["id"].endswith("full/modification/any-removals")
    of_one = sum(repeat["exact"]["smallest"][:1])
    assert of_one <= found["right"] - found["proven"]  # a removal is a flip
    assert not repeat["exact"]["undecided"]


def test_parts_that_mix_rows_are_named_before_anything_is_trained(own: pytest.Pytester) -> None:
    """If nothing else is asked of the model."""
    result = own.runpytest_subprocess(
        *ARGS, "--grb-dataset=own_exact:large", "--grb-model=own_exact:centred"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*its PairNorm may mix rows of all nodes*"])


@pytest.mark.slow
def test_what_cannot_be_proven_leaves_other_cases_alone(own: pytest.Pytester) -> None:
    result = own.runpytest_subprocess(
        "--grb-only",
        "--grb-attack=modification/any-flip,modification/rnd",
        "--grb-difficulty=full",
        "--grb-repeats=1",
        *ARGS[2:],
        "--grb-dataset=own_exact:large",
        "--grb-model=own_exact:centred",
    )
    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines(["*its PairNorm may mix rows of all nodes*"])
