"""The trial that a weighting of edges has to pass before it is used.

With weights of 1 and 0, the output has to equal the module's own output on the graph with the edges
of weight 1, and the weights need a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from grb_check.errors import ModelError
from grb_check.gradients.pair_graph import PairGraph, pair_graph, pairs_of_edges, present_pairs
from grb_check.gradients.trial import Answers, agrees, along_direction
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter
from grb_check.victims.probed import on_given_edges, user_adapter

TRIAL_NODES: Final = 300  # at most; whole graphs up to this size
TRIAL_PAIRS: Final = 40
DRAWN: Final = 5000  # pairs from which those of the trial are taken, half of them edges if possible

# From features [N, d] and weights [e] to the output [N, c].
WeightedForward = Callable[[Tensor, Tensor], Tensor]
Weighting = Callable[[Adapter, Tensor, int], WeightedForward]  # of an adapter, edges [2, e] and N


@dataclass(frozen=True, eq=False)
class WeightTrial:
    """The outputs that a weighting must reproduce.

    Attributes:
        adapter: of the module.
        x: float [n, d].
        graph: with the pairs of the trial.
        pattern: bool [p], a random choice of pairs that differs from those present.
        outputs: float [n, c] of the module itself, for the pairs present and for the pattern.
    """

    adapter: Adapter
    x: Tensor
    graph: PairGraph
    pattern: Tensor
    outputs: tuple[Tensor, Tensor]

    def passed(self, weighting: Weighting) -> bool:
        """Return whether a weighting reproduces the outputs, with a gradient if they differ."""
        try:
            weighted = weighting(self.adapter, self.graph.edge_index, self.x.shape[0])
            return self._reproduced(weighted)
        except (ModelError, RuntimeError):  # torch's error for an operation without a gradient
            return False

    def _reproduced(self, weighted: WeightedForward) -> bool:
        def of_pairs(weights: Tensor) -> Tensor:
            return weighted(self.x, self.graph.weights(weights))

        clean, changed = self.outputs
        pattern = self.pattern.to(self.x.dtype)
        with torch.no_grad(), isolated_randomness(0):
            first = of_pairs(self.graph.present.to(self.x.dtype))
        second, gradient = along_direction(of_pairs, pattern, seed=0)
        same = agrees(Answers((first, second)), Answers(self.outputs), clean)
        if gradient is None or not same:
            return False
        if bool(gradient.any()) or agrees(Answers((clean,)), Answers((changed,)), clean):
            return True
        # At the pattern the gradient may be 0 by symmetry, such as for equal nodes that are pooled.
        _, gradient = along_direction(of_pairs, torch.full_like(pattern, 0.5), seed=0)
        return gradient is not None and bool(gradient.any())


def weight_trial(
    adapter: Adapter, x: Tensor, edge_index: Tensor, pairs: Tensor
) -> WeightTrial | None:
    """Return the trial of weightings of pairs; None if the module cannot be called for it.

    It is made on a part of the graph with at most `TRIAL_NODES` nodes; on the whole graph if the
    module cannot be called on the part.

    Args:
        adapter: of the module.
        x: float [N, d].
        edge_index: int64 [2, 2E].
        pairs: int64 [2, m].
    """
    part = _trial_on(adapter, x, *_part(x, edge_index, pairs))
    if part is not None:
        return part
    return _trial_on(adapter, x, torch.arange(x.shape[0], device=x.device), edge_index, pairs)


def _trial_on(
    adapter: Adapter, x: Tensor, nodes: Tensor, edge_index: Tensor, pairs: Tensor
) -> WeightTrial | None:
    """Return the trial on a part of the graph; None if the module cannot be called on it.

    Args:
        adapter: of the module.
        x: float [N, d], of all nodes.
        nodes: int64 [n], those of the part.
        edge_index: int64 [2, f], as positions in `nodes`.
        pairs: int64 [2, p], as positions in `nodes`.
    """
    given = user_adapter(adapter).given_edges
    if given is not None:
        adapter = on_given_edges(adapter, given.on(nodes))
    graph = pair_graph(edge_index, pairs, nodes.numel())
    generator = torch.Generator().manual_seed(0)
    flipped = torch.rand(pairs.shape[1], generator=generator) < 0.5
    flipped[:1] = True
    pattern = graph.present ^ flipped.to(x.device)
    outputs = []
    for chosen in (graph.present, pattern):
        try:
            with torch.no_grad(), isolated_randomness(0):
                outputs.append(adapter(x[nodes], graph.real_edges(chosen)))
        except ModelError:
            return None
    return WeightTrial(adapter, x[nodes], graph, pattern, (outputs[0], outputs[1]))


def _part(x: Tensor, edge_index: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return some of the pairs with their neighbourhood: nodes, edges and renumbered pairs."""
    num_nodes = x.shape[0]
    generator = torch.Generator().manual_seed(0)
    drawn = pairs[:, torch.randperm(pairs.shape[1], generator=generator)[:DRAWN].to(pairs.device)]
    present = present_pairs(pairs_of_edges(edge_index, drawn, num_nodes), drawn)
    halves = [drawn[:, present == kind][:, : TRIAL_PAIRS // 2] for kind in (True, False)]
    chosen = torch.cat(halves, dim=1)
    if num_nodes <= TRIAL_NODES:
        return torch.arange(num_nodes, device=x.device), edge_index, chosen
    inside = torch.zeros(num_nodes, dtype=torch.bool, device=x.device)
    inside[chosen.flatten()] = True
    around = torch.unique(edge_index[1][inside[edge_index[0]] & ~inside[edge_index[1]]])
    inside[around[: TRIAL_NODES - int(inside.sum())]] = True
    edges = edge_index[:, inside[edge_index].all(dim=0)]
    fixed = edges[0, pairs_of_edges(edges, chosen, num_nodes) < 0]
    if fixed.numel():
        # Some layers of PyG count nodes by the largest one that has an edge.
        last = torch.bincount(fixed).argmax()
        inside[last] = False
        nodes = torch.cat([inside.nonzero().squeeze(1), last[None]])
    else:
        nodes = inside.nonzero().squeeze(1)
    positions = torch.zeros_like(inside, dtype=torch.int64)
    positions[nodes] = torch.arange(nodes.numel(), device=nodes.device)
    return nodes, positions[edges], positions[chosen]
