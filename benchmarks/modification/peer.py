"""PyG's PRBCD and GRBCD on the same weights, their results counted and verified as ours.

Of an epoch of theirs, one forward and one backward pass are for the gradient; PRBCD has a second
forward pass for its metric.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch_geometric import __version__
from torch_geometric.data import Data

from benchmarks.memory import peak_mib, reset_peak
from benchmarks.modification.arena import Run
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.datasets.dataset import Dataset
from grb_check.gradients.victim import Victim
from grb_check.user_code.randomness import isolated_randomness

PEER: Final = f"PyG {__version__}"
BLOCK: Final = 250_000
EPOCHS: Final = 125


@dataclass(frozen=True, kw_only=True)
class PeerAttack:
    """One of PyG's attacks with the loss that was measured to make it strongest on Planetoid."""

    kind: str
    loss: str
    greedy: bool


PEERS: Final[Mapping[str, PeerAttack]] = MappingProxyType(
    {
        "PRBCD tanh_margin": PeerAttack(kind="PRBCDAttack", loss="tanh_margin", greedy=False),
        "GRBCD masked": PeerAttack(kind="GRBCDAttack", loss="masked", greedy=True),
    }
)


class LogProbabilities(nn.Module):
    """A module that returns log-probabilities instead of logits."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return log-probabilities float [num_nodes, num_classes]."""
        logits: Tensor = self.module(x, edge_index, edge_weight)
        return logits.log_softmax(dim=1)


def run_peer(
    name: str,
    victim: Victim,
    dataset: Dataset,
    limits: Threat,
    *,
    epochs: int,
    block: int,
    seed: int,
) -> Run:
    """Run one of PyG's attacks with the true labels; it draws from the global random state.

    Args:
        name: a key of `PEERS`.
        epochs: 125 renew the block in the first 100, PyG's defaults; others in as large a share.
        block: pairs in it.
    """
    attack = _attack(PEERS[name], victim.module, epochs, block)
    graph = dataset.graph
    reset_peak()
    with isolated_randomness(seed):
        begin = time.perf_counter()
        edge_index, _ = attack.attack(
            graph.x, graph.edge_index, graph.y, limits.edge_budget, limits.targets
        )
        seconds = time.perf_counter() - begin
    peak = peak_mib()
    perturbation = difference(graph, edge_index)
    verify(perturbation, graph, limits)
    # The greedy one has no more steps than edges to flip.
    steps = min(epochs, limits.edge_budget) if PEERS[name].greedy else epochs
    return Run(perturbation=perturbation, seconds=seconds, gradients=steps, peak_mib=peak)


def difference(graph: Data, edge_index: Tensor) -> Perturbation:
    """Return the perturbation from a graph to these edges int64 [2, .], each in both directions."""
    before, after = _codes(graph.edge_index, graph.num_nodes), _codes(edge_index, graph.num_nodes)
    return Perturbation(
        added_edges=_pairs(after[~torch.isin(after, before)], graph.num_nodes),
        removed_edges=_pairs(before[~torch.isin(before, after)], graph.num_nodes),
    )


def _attack(peer: PeerAttack, module: nn.Module, epochs: int, block: int) -> Any:
    settings: dict[str, Any] = {"epochs": epochs, "loss": peer.loss, "log": False}
    if not peer.greedy:
        settings["epochs_resampling"] = int(0.8 * epochs)
    model = LogProbabilities(module) if peer.loss == "masked" else module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is experimental
        package = importlib.import_module("torch_geometric.contrib.nn.models")
    return getattr(package, peer.kind)(model, block, **settings)


def _codes(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return distinct codes int64 [e] of the undirected edges."""
    return (edge_index.amin(0) * num_nodes + edge_index.amax(0)).unique()


def _pairs(codes: Tensor, num_nodes: int) -> Tensor:
    return torch.stack([codes // num_nodes, codes % num_nodes])
