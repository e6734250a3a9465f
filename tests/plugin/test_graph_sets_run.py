"""A set of graphs in a run, as a user sees it."""

from __future__ import annotations

import json

import pytest

ENCODER = """
import torch
from torch_geometric.nn import GINConv, global_add_pool

import grb_check


class Encoder(torch.nn.Module):
    def __init__(self, num_features, width):
        super().__init__()
        self.layer = GINConv(torch.nn.Linear(num_features, width))
        self.trained = False

    def forward(self, x, edge_index, batch):
        assert self.trained
        return global_add_pool(self.layer(x, edge_index).relu(), batch)


def two_wide(num_features, width=2):
    module = Encoder(num_features, int(width))

    def pretrain(data):
        assert data.num_graphs == 216
        module.trained = True

    return grb_check.Encoder(module, pretrain)


def bare(num_features):
    return Encoder(num_features, 16)


def of_nodes(num_features, num_classes):
    return torch.nn.Linear(num_features, num_classes)
"""
SETS = """
import torch
from torch_geometric.data import Data


def rings_and_stars():
    made = []
    for place in range(60):
        size = 6 + place % 4
        nodes = torch.arange(size)
        ring = torch.stack([nodes, (nodes + 1) % size])
        star = torch.stack([torch.zeros(size - 1, dtype=torch.int64), nodes[1:]])
        edges = star if place % 2 else ring
        edges = torch.cat([edges, edges.flip(0)], dim=1)
        made.append(Data(edge_index=edges, num_nodes=size, y=place % 2))
    return made


def real_targets():
    made = rings_and_stars()
    made[3].y = 0.5
    return made
"""
GIN = """
import torch
from torch_geometric.nn import MLP, GINConv, global_add_pool


class GIN(torch.nn.Module):
    def __init__(self, num_features, num_classes):
        super().__init__()
        self.layer = GINConv(MLP([num_features, 16, 16]))
        self.out = torch.nn.Linear(16, num_classes)

    def forward(self, x, edge_index, batch):
        return self.out(global_add_pool(self.layer(x, edge_index).relu(), batch))
"""
ARGS = ("--grb-only", "--grb-dataset=synthetic-molecules", "--grb-repeats=1", "--grb-max-drop=1")


@pytest.mark.slow
def test_an_encoder_of_graphs_is_probed_and_attacked(pytester: pytest.Pytester) -> None:
    """With two embeddings and two classes the wrapper decides. Attacks see encoder and probe."""
    pytester.makepyfile(enc=ENCODER)
    result = pytester.runpytest(
        *ARGS,
        "--grb-model=enc:two_wide",
        "--grb-model-args=width=2",
        "--grb-attack=random-flips,grbcd",
        "--grb-min-clean=0",
        "--grb-json=run.json",
    )
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "*2 cases of suite graphs (default) x 1 repeat*",
            "two_wide on synthetic-molecules (bundled with grb_check)",
            "*full*modification/random-flips*pass*",
            "*full*modification/grbcd*pass*",
            "two_wide keeps * under these attacks, by attackers who * and by those who do; *",
        ]
    )
    record = json.loads((pytester.path / "run.json").read_text())
    cases = {case["id"].split("/")[-1]: case["outcome"] for case in record["cases"]}
    assert {case["targets"] for case in cases.values()} == {60}
    assert cases["grbcd"]["repeats"][0]["method"] == "adaptive"
    drops = {case["id"].split("/")[-1]: case["drop"] for case in record["summary"]["cases"]}
    assert drops["grbcd"] > drops["random-flips"]


@pytest.mark.slow
def test_a_users_set_of_graphs_is_attacked(pytester: pytest.Pytester) -> None:
    """Nothing but the function is named; its graphs have neither features nor a split."""
    pytester.makepyfile(mysets=SETS, gin=GIN)
    args = (
        "--grb-only",
        "--grb-model=gin:GIN",
        "--grb-dataset=mysets:rings_and_stars",
        "--grb-repeats=1",
        "--grb-max-drop=1",
        "--grb-json=run.json",
    )
    result = pytester.runpytest(*args)
    result.assert_outcomes(passed=9)
    result.stdout.fnmatch_lines(
        [
            "*9 cases of suite graphs (default) x 1 repeat*",
            "GIN on mysets.rings_and_stars (mysets:rings_and_stars, constant features, 80/20*",
            "  between data and model: the nodes have no features; models get the*",
        ]
    )
    record = json.loads((pytester.path / "run.json").read_text())
    assert {case["outcome"]["targets"] for case in record["cases"]} == {12}
    (dataset,) = record["settings"]["datasets"]
    assert (dataset["name"], dataset["of_graphs"]) == ("mysets.rings_and_stars", True)
