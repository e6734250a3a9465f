"""The gradient in the weights of all pairs of nodes, for modules of PyG's layers.

It is computed from the inputs and outputs of the layers, see `propagations`, and used only if it
agrees with autograd on a sample of pairs: those of the module, or else those of the module with
random masks and votes replaced by `averages`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Final

import torch
from torch import Tensor, nn

from grb_check.attacks.pair_gradients import PairGradients
from grb_check.errors import ModelError
from grb_check.gradients.averaging import averages, have_effect
from grb_check.gradients.edge_weights import (
    TRIAL_NODES,
    WeightedForward,
    Weighting,
    first_valid_weighting,
    pair_graph,
)
from grb_check.gradients.layer_calls import layers_of
from grb_check.gradients.normalisation import Normalisation
from grb_check.gradients.propagations import (
    SAME,
    PropagateCall,
    error,
    fitted_normalisations,
    fixed_noise,
    gradients_of,
    recorded,
    weighted_graph,
)
from grb_check.gradients.trial import Answers, agrees
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.conventions import Adapter

PAIRS: Final = 100  # of the trial, half of them edges
MOST_ENTRIES: Final = 100_000_000  # of the factors, 0.4 GB
_STARTS: Final = 20  # edges from which the part of the graph grows

Normalisations = Mapping[nn.Module, Normalisation]  # of each layer; empty if the trial failed


class LayerFactors:
    """The normalisations of one module's layers, found by a trial on first use and kept.

    The trial also decides whether gradients are computed from them at all.
    """

    def __init__(self) -> None:
        self._norms: Normalisations | None = None  # None before the trial
        self._weighting: Weighting | None = None
        self._within: Callable[[], AbstractContextManager[None]] = nullcontext

    def copy(self) -> LayerFactors:
        """Return a copy with the results so far, for the module on other graphs."""
        return copy.copy(self)

    def gradients(
        self,
        adapter: Adapter,
        x: Tensor,
        edge_index: Tensor,
        objective: Callable[[Tensor], Tensor],
        edge_weight: Tensor | None = None,
    ) -> PairGradients | None:
        """Return the gradient of an objective in the weight of every pair of nodes.

        Args:
            adapter: of the module, in evaluation mode.
            x: float [N, d].
            edge_index: int64 [2, 2E], both directions of each edge.
            objective: from the module's output to a scalar.
            edge_weight: float [2E], the same in both directions (default: 1).

        Returns:
            None if no normalisation fits a layer; if the gradients differ from autograd's for some
            pairs on a part of the graph, because the module also uses the edges outside its layers;
            if no weighting of the edges is valid; or if the factors have more than `MOST_ENTRIES`
            entries.
        """
        x = x.detach()
        if self._norms is None:
            self._norms = self._found(adapter, x, edge_index)
        if not self._norms:
            return None
        adapter = replace(adapter, within=self._within)
        if edge_weight is None:
            weights = x.new_ones(edge_index.shape[1])
            forward = partial(adapter, x, edge_index)
        else:
            weights = edge_weight.detach().to(x.dtype)
            weighted = self._weighted(adapter, x, edge_index)
            if weighted is None:
                return None
            forward = partial(weighted, x, weights)
        module = adapter.module
        graph = weighted_graph(edge_index, weights, x.shape[0])
        output, calls = recorded(module, forward, graph)
        if not calls or not all(_fits(self._norms, each) for each in calls):
            return None
        with torch.enable_grad():
            value = objective(output)
        found = gradients_of(value, module, calls, self._norms)
        entries = found.inputs.numel() + found.outputs.numel()
        return found if entries <= MOST_ENTRIES else None

    def _found(self, adapter: Adapter, x: Tensor, edge_index: Tensor) -> Normalisations:
        if not layers_of(adapter.module):
            return {}
        norms = _trusted_normalisations(adapter, x, edge_index)
        if norms or not have_effect(lambda: adapter(x, edge_index)):
            return norms
        self._within = averages
        return _trusted_normalisations(replace(adapter, within=averages), x, edge_index)

    def _weighted(self, adapter: Adapter, x: Tensor, edge_index: Tensor) -> WeightedForward | None:
        """Return the module as a function of features and weights of edges."""
        if self._weighting is None:
            pairs = _some_pairs(edge_index, x.shape[0])
            self._weighting = first_valid_weighting(adapter, x, edge_index, pairs)
        return None if self._weighting is None else self._weighting(adapter, edge_index, x.shape[0])


def _fits(norms: Normalisations, call: PropagateCall) -> bool:
    """Return whether the normalisation that the trial found fits this call."""
    norm = norms.get(call.layer)
    return norm is not None and error(norm, call) <= SAME


def _trusted_normalisations(adapter: Adapter, x: Tensor, edge_index: Tensor) -> Normalisations:
    """Return the layers' normalisations if the gradients agree with autograd's on some pairs.

    Tried on a part of the graph; on the whole graph if the module cannot be called on the part, or
    no pair of it has a gradient.
    """
    nodes, edges = _part(edge_index, x.shape[0])
    for rows, ends in ((x[nodes], edges), (x, edge_index)):
        try:
            norms = _verified_normalisations(adapter, rows, ends)
        except (ModelError, RuntimeError):  # torch's error for an operation without a gradient
            continue
        if norms is not None:
            return norms
    return {}


def _verified_normalisations(
    adapter: Adapter, x: Tensor, edge_index: Tensor
) -> Normalisations | None:
    """Return the same for one graph; None if all gradients are 0, which decides nothing."""
    num_nodes = x.shape[0]
    pairs = _some_pairs(edge_index, num_nodes)
    of_pairs = pair_graph(edge_index, pairs, num_nodes)
    graph = weighted_graph(edge_index, x.new_ones(edge_index.shape[1]), num_nodes)
    with isolated_randomness(0):
        output, calls = recorded(adapter.module, partial(adapter, x, edge_index), graph)
    norms = fitted_normalisations(calls)
    weighting = first_valid_weighting(adapter, x, edge_index, pairs) if norms else None
    if not norms or weighting is None:
        return {}
    with torch.enable_grad():
        value = _some_objective(output)
    found = gradients_of(value, adapter.module, calls, norms).at(pairs)
    weights = of_pairs.present.to(x.dtype).requires_grad_()
    with torch.enable_grad(), isolated_randomness(0):
        weighted = weighting(adapter, of_pairs.edge_index, num_nodes)
        expected_output = weighted(x, of_pairs.weights(weights))
        (expected,) = torch.autograd.grad(_some_objective(expected_output), weights)
    if not bool(expected.any()):
        return None
    output = output.detach()
    reference = Answers((expected_output.detach(),), expected)
    return norms if agrees(Answers((output,), found), reference, output) else {}


def _some_objective(output: Tensor) -> Tensor:
    """Return the output along a random direction, so that no part of it is left out."""
    return (output * fixed_noise(output.shape, output)).sum()


def _part(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Return at most `TRIAL_NODES` nodes around some edges, int64 [n], and the edges among them.

    The edges, int64 [2, f], are numbered by positions in the nodes. The part is connected if
    possible.
    """
    if num_nodes <= TRIAL_NODES:
        return torch.arange(num_nodes, device=edge_index.device), edge_index
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(max(1, edge_index.shape[1]), (_STARTS,), generator=generator)
    inside = torch.zeros(num_nodes, dtype=torch.bool, device=edge_index.device)
    ends = edge_index[:, drawn.to(edge_index.device)] if edge_index.numel() else edge_index
    added = torch.unique(ends)
    while added.numel():
        inside[added] = True
        around = torch.unique(edge_index[1][inside[edge_index[0]] & ~inside[edge_index[1]]])
        added = around[: TRIAL_NODES - int(inside.sum())]
    places = torch.cumsum(inside, 0) - 1
    return inside.nonzero().squeeze(1), places[edge_index[:, inside[edge_index].all(dim=0)]]


def _some_pairs(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return int64 [2, m]: some edges, and some pairs that are not edges, with first < second.

    Isolated nodes are left out, because autograd's gradient may be infinite there.
    """
    generator = torch.Generator().manual_seed(0)
    codes = edge_index[0] * num_nodes + edge_index[1]
    forth = codes[edge_index[0] < edge_index[1]]
    if not forth.numel():
        return forth.new_empty((2, 0))
    order = torch.randperm(forth.numel(), generator=generator)[: PAIRS // 2].to(codes.device)
    drawn = torch.randint(edge_index.shape[1], (2, 4 * PAIRS), generator=generator)
    first, second = edge_index[0][drawn.to(codes.device)].sort(dim=0).values
    others = torch.unique((first * num_nodes + second)[first < second])
    others = others[~torch.isin(others, codes)]
    shuffled = torch.randperm(others.numel(), generator=generator)[: PAIRS // 2].to(codes.device)
    chosen = torch.cat([forth[order], others[shuffled]])
    return torch.stack([chosen // num_nodes, chosen % num_nodes])
