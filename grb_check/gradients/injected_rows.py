"""Logits as a function of the features of injected nodes, for modules around PyG's layers.

`injected_features` needs a model that declares its layers. Here a module of any kind runs its own
`forward`, in which each layer of PyG is replaced by its restriction to the rows that injected nodes
change and targets need (`changed_rows`), with all other rows taken from a recorded call. The rest
of the module, such as norms, activations and skip connections, is called on fewer rows.

That is right for modules whose other parts work row by row and whose layers reach one hop each. No
type says that: a trial does, see `Trial`, on the same graph and targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch_geometric.utils import index_to_mask

from grb_check.errors import ModelError
from grb_check.gradients.changed_rows import Rows, restricted, spread
from grb_check.gradients.edge_weights import NOISE, allowed_error
from grb_check.gradients.layer_calls import (
    LayerCall,
    OnRows,
    OtherCallError,
    keeping_state,
    recorded_calls,
    replayed,
)
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.conventions import Adapter

KINKS: Final = 1e-2  # relative error of gradients, which jump at the kinks of a ReLU


def injected_row_logits(
    adapter: Adapter, x: Tensor, edge_index: Tensor, count: int, targets: Tensor
) -> OnRows | None:
    """Return the map from features [count, d] of injected nodes to the output [t, c] at targets.

    Args:
        adapter: of a module in evaluation mode, its parameters frozen.
        x: float [N, d], features of the existing nodes.
        edge_index: int64 [2, e] of the graph of N + count nodes; the injected nodes come last.
        count: number of injected nodes.
        targets: int64 [t], distinct nodes.

    Returns:
        None if the module has no layers of PyG, calls them in an unknown way, or fails the trial.
    """
    num_nodes = x.shape[0] + count
    if not x.numel() or not targets.numel():
        return None
    start = torch.cat([x, x.new_zeros((count, x.shape[1]))])
    forward = keeping_state(adapter.module, adapter.with_graph(edge_index, num_nodes, {}))
    topology = adapter.on_topology(edge_index, num_nodes)

    def whole(features: Tensor) -> Tensor:
        return topology(torch.cat([x, features]))[targets]

    try:
        with torch.no_grad(), isolated_randomness(0):
            clean, calls = recorded_calls(adapter.module, lambda: forward(start))
        if not calls or clean.shape[:1] != (num_nodes,):
            return None
        trial = trial_of(whole, x, count, clean[targets])
    except (ModelError, RuntimeError):  # such as no backward pass; the attack meets it, too
        return None
    injected = torch.arange(x.shape[0], num_nodes, device=x.device)
    for sets in _row_sets(calls, injected, targets, num_nodes):
        logits_of = _on_rows(forward, calls, sets, start, clean, injected, targets)
        if trial.passed(logits_of):
            return or_whole(logits_of, whole)
    return None


def or_whole(logits_of: OnRows, whole: OnRows) -> OnRows:
    """Return a map on rows that falls back to the whole module where it cannot follow it."""

    def logits(features: Tensor) -> Tensor:
        try:
            return logits_of(features)
        except OtherCallError:  # such as edges that a module chooses by features
            return whole(features)

    return logits


def _row_sets(
    calls: Sequence[LayerCall], injected: Tensor, targets: Tensor, num_nodes: int
) -> Iterator[list[Tensor]]:
    """Yield the rows before the first layer, and after each, int64 [.]; the fewest first.

    A module that adds up rows from before and after a layer needs the same ones on both sides.
    """
    reached = [index_to_mask(injected, num_nodes)]
    for call in calls:
        reached.append(grown(reached[-1], *call.edge_index))
    needed = [index_to_mask(targets, num_nodes)]
    for call in reversed(calls):
        needed.append(grown(needed[-1], *call.edge_index.flip(0)))
    each = [r & n for r, n in zip(reached, reversed(needed), strict=True)]
    any_time = torch.stack(each).any(dim=0)
    for masks in (each, [each[0], *[any_time] * len(calls)], [any_time] * (len(calls) + 1)):
        yield [mask.nonzero().squeeze(1) for mask in masks]


def grown(mask: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """Return the mask with the targets of all edges whose sources are in it."""
    larger = mask.clone()
    larger[target[mask[source]]] = True
    return larger


def _on_rows(
    forward: OnRows,
    calls: Sequence[LayerCall],
    sets: Sequence[Tensor],
    start: Tensor,
    clean: Tensor,
    injected: Tensor,
    targets: Tensor,
) -> OnRows:
    """Return the map from injected features to the targets' output, on these rows of each layer."""
    num_nodes = start.shape[0]
    first = spread(start, injected, sets[0])
    last = spread(clean, sets[-1], targets)
    parts = [
        restricted(call, Rows(before, after, num_nodes))
        for call, before, after in zip(calls, sets, sets[1:], strict=False)
    ]
    return lambda features: last(replayed(forward, calls, parts, first(features)))


@dataclass(frozen=True, eq=False)
class Trial:
    """A module's own output for some features of injected nodes.

    Attributes:
        features: float [count, d], twice.
        outputs: float [t, c] of the whole module for each.
        gradient: float [count, d] of a random direction of the second output.
        change: the largest difference between these outputs and those without features.
        width: of the range of the features.
    """

    features: tuple[Tensor, Tensor]
    outputs: tuple[Tensor, Tensor]
    gradient: Tensor | None
    change: float
    width: float

    def passed(self, logits_of: OnRows) -> bool:
        """Return whether a map gives the same outputs and gradient but for rounding."""
        try:
            first, second, gradient = _tried(logits_of, self.features)
        except (ModelError, RuntimeError, IndexError):
            return False
        if gradient is None or self.gradient is None:
            return False
        scale = max(float(each.abs().max()) for each in self.outputs) or 1.0
        allowed = allowed_error(scale, self.change)
        for found, expected in zip((first, second), self.outputs, strict=True):
            if (
                found.shape != expected.shape
                or not float((found - expected).abs().max()) <= allowed
            ):
                return False
        # Times the width, a gradient is an output.
        error = self.width * float((gradient - self.gradient).norm())
        return error <= KINKS * self.width * float(self.gradient.norm()) + NOISE * scale


def trial_of(whole: OnRows, x: Tensor, count: int, clean: Tensor) -> Trial:
    """Return the trial: features of random nodes, and random ones in the range of all."""
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randint(x.shape[0], (count,), generator=generator)
    uniform = torch.rand((count, x.shape[1]), generator=generator).to(x)
    low, high = float(x.min()), float(x.max())
    features = x[chosen.to(x.device)], low + (high - low) * uniform
    first, second, gradient = _tried(whole, features)
    change = max(float((each - clean).abs().max()) for each in (first, second))
    return Trial(features, (first, second), gradient, change, high - low)


def _tried(
    logits_of: OnRows, features: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return both outputs, and the gradient of the second along a random direction.

    With another seed than that of the recorded call: rows that are taken from there must not differ
    by random numbers that the module draws.
    """
    first, second = features
    with torch.no_grad(), isolated_randomness(1):
        output = logits_of(first)
    second = second.clone().requires_grad_()
    with torch.enable_grad(), isolated_randomness(1):
        other = logits_of(second)
    if not other.requires_grad:
        return output, other, None
    direction = torch.randn(other.shape, generator=torch.Generator().manual_seed(0)).to(other)
    (gradient,) = torch.autograd.grad((other * direction).sum(), second, allow_unused=True)
    return output, other.detach(), gradient
