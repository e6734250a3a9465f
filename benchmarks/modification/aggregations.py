"""Models whose layers aggregate neighbours in several ways, and the closest that have one.

Attacked through the gradient of edges by::

    pytest --grb-only --grb-model=benchmarks.modification.aggregations:pna --grb-repeats=1 \
        --grb-difficulty=easy --grb-attack=modification/prbcd --grb-max-drop=1
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.utils import degree, dropout_edge

HIDDEN = 64
VOTES = 8
DROPPED = 0.3  # share of the edges in each of the copies that vote


class TwoLayers(nn.Module):
    """Two layers of PyG with a ReLU and dropout in between."""

    def __init__(self, make: Callable[[int, int], nn.Module], inside: int, outside: int) -> None:
        super().__init__()
        self.first, self.second = make(inside, HIDDEN), make(HIDDEN, HIDDEN)
        self.last = nn.Linear(HIDDEN, outside)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.dropout(self.first(x, edge_index).relu(), 0.5, self.training)
        return self.last(self.second(x, edge_index).relu())


def sage_mean(in_channels: int, out_channels: int) -> nn.Module:
    """GraphSAGE with the mean."""
    return TwoLayers(pyg.SAGEConv, in_channels, out_channels)


def sage_max(in_channels: int, out_channels: int) -> nn.Module:
    """GraphSAGE with the maximum."""
    return TwoLayers(lambda i, o: pyg.SAGEConv(i, o, aggr="max"), in_channels, out_channels)


def sage_several(in_channels: int, out_channels: int) -> nn.Module:
    """GraphSAGE with mean, standard deviation and maximum."""
    return TwoLayers(
        lambda i, o: pyg.SAGEConv(i, o, aggr=["mean", "std", "max"]), in_channels, out_channels
    )


def pna(data: Any, in_channels: int, out_channels: int) -> nn.Module:
    """PNA with four aggregations and three scalers of the degree."""
    degrees = torch.bincount(degree(data.edge_index[1], data.num_nodes, dtype=torch.long))
    return TwoLayers(
        lambda i, o: pyg.PNAConv(
            i,
            o,
            ["mean", "min", "max", "std"],
            ["identity", "amplification", "attenuation"],
            degrees,
        ),
        in_channels,
        out_channels,
    )


def pna_mean(data: Any, in_channels: int, out_channels: int) -> nn.Module:
    """PNA's layer with the mean alone, unscaled."""
    degrees = torch.bincount(degree(data.edge_index[1], data.num_nodes, dtype=torch.long))
    return TwoLayers(
        lambda i, o: pyg.PNAConv(i, o, ["mean"], ["identity"], degrees), in_channels, out_channels
    )


def eg_several(in_channels: int, out_channels: int) -> nn.Module:
    """EGConv with sum, maximum and symmetric normalisation."""
    return TwoLayers(
        lambda i, o: pyg.EGConv(i, o, aggregators=["sum", "max", "symnorm"]),
        in_channels,
        out_channels,
    )


def eg_sum(in_channels: int, out_channels: int) -> nn.Module:
    """EGConv with the sum alone."""
    return TwoLayers(lambda i, o: pyg.EGConv(i, o, aggregators=["sum"]), in_channels, out_channels)


class Vote(nn.Module):
    """A GCN whose answer is averaged, or voted on, over copies of the graph without some edges."""

    def __init__(self, inside: int, outside: int, majority: bool) -> None:
        super().__init__()
        self.net = pyg.GCN(inside, HIDDEN, 2, outside, dropout=0.5)
        self.majority = majority

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.training:
            return self.net(x, dropout_edge(edge_index, DROPPED)[0])
        answers = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            for _ in range(VOTES):
                answers.append(self.net(x, dropout_edge(edge_index, DROPPED)[0]))
        logits = torch.stack(answers)
        if self.majority:
            return F.one_hot(logits.argmax(-1), logits.shape[-1]).float().mean(0)
        return logits.softmax(-1).mean(0)


def vote_mean(in_channels: int, out_channels: int) -> nn.Module:
    """A GCN whose probabilities are averaged over copies without some edges."""
    return Vote(in_channels, out_channels, majority=False)


def vote_majority(in_channels: int, out_channels: int) -> nn.Module:
    """A GCN that answers with the shares of the votes of copies without some edges."""
    return Vote(in_channels, out_channels, majority=True)


def gcn(in_channels: int, out_channels: int) -> nn.Module:
    """The GCN of both votes, without dropped edges."""
    return pyg.GCN(in_channels, HIDDEN, 2, out_channels, dropout=0.5)
