"""Logits as a function of the features of injected nodes, for modules around PyG's layers.

`alternating` needs a model that declares its layers. Here a module of any kind runs its own
`forward`, in which each layer of PyG is replaced by its restriction to the rows that injected nodes
change and targets need (`changed_rows`), with all other rows taken from a recorded call. The rest
of the module, such as norms, activations and skip connections, is called on fewer rows.

That is right for modules whose other parts work row by row and whose layers reach one hop each. No
type says that: a trial does, on the same graph and targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch_geometric.utils import index_to_mask

from grb_check.errors import ModelError
from grb_check.gradients.changed_rows import (
    Links,
    RestrictedLayer,
    Rows,
    divides_by_senders_degree,
    restricted,
    spread,
)
from grb_check.gradients.layer_calls import (
    LayerCall,
    OnRows,
    OtherCallError,
    keeping_state,
    recorded_calls,
    replayed,
)
from grb_check.gradients.trial import Answers, agrees, along_direction
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter

LinkedLogits = Callable[[Tensor, Tensor], Tensor]


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
    topology = adapter.on_topology(edge_index, x.shape[0] + count)

    def whole(features: Tensor) -> Tensor:
        return topology(torch.cat([x, features]))[targets]

    module = _recorded(adapter, x, edge_index, count, targets)
    logits_of = None if module is None else _first_passing(module, whole, x)
    return None if logits_of is None else _or_whole(partial(_weighted, logits_of, None), whole)


def linked_row_logits(
    adapter: Adapter,
    x: Tensor,
    edge_index: Tensor,
    count: int,
    candidates: Tensor,
    targets: Tensor,
) -> LinkedLogits | None:
    """Return the map from features [n, d] and weights [n, m] of links to the output [t, c].

    Args:
        adapter: of a module in evaluation mode, its parameters frozen.
        x: float [N, d], features of the existing nodes.
        edge_index: int64 [2, e], both directions of each edge of the clean graph.
        count: n, injected nodes.
        candidates: int64 [m], distinct existing nodes.
        targets: int64 [t], distinct existing nodes.

    Returns:
        None if a layer has no closed form, or the trial fails: with weights of 0 and 1 the output
        and the gradient in the features must be those of the module on the graph with the links.
    """
    if not candidates.numel() or not count:
        return None
    links = Links(count, candidates, x.shape[0] + count)
    pattern = links.pattern(x)
    linked = torch.cat([edge_index, links.edges(pattern)], dim=1)
    topology = adapter.on_topology(linked, links.num_nodes)

    def whole(features: Tensor) -> Tensor:
        return topology(torch.cat([x, features]))[targets]

    module = _recorded(adapter, x, edge_index, count, targets)
    return None if module is None else _first_passing(module, whole, x, links, pattern)


def _first_passing(
    module: _RecordedModule,
    whole: OnRows,
    x: Tensor,
    links: Links | None = None,
    pattern: Tensor | None = None,
) -> RestrictedLayer | None:
    """Return the map on the fewest rows that passes the trial; None if there is none.

    Args:
        module: recorded without links.
        whole: features [count, d] -> output [t, c] of the module, with the links of the pattern.
        x: float [N, d].
        links: those that have weights.
        pattern: float [n, m], their weights in the trial.
    """
    trial = _trial_of(whole, x, module.injected.numel(), module.clean[module.targets])
    if trial is None:
        return None
    for sets in module.row_sets(links):
        logits_of = module.on_rows(sets, links)
        if logits_of is None:
            return None
        if trial.passed(partial(_weighted, logits_of, pattern)):
            return logits_of
    return None


def _weighted(layer: RestrictedLayer, of_links: Tensor | None, features: Tensor) -> Tensor:
    return layer(features, of_links)


def _or_whole(logits_of: OnRows, whole: OnRows) -> OnRows:
    """Return a map on rows that falls back to the whole module where it cannot follow it."""

    def logits(features: Tensor) -> Tensor:
        try:
            return logits_of(features)
        except OtherCallError:  # such as edges that a module chooses by features
            return whole(features)

    return logits


def _recorded(
    adapter: Adapter, x: Tensor, edge_index: Tensor, count: int, targets: Tensor
) -> _RecordedModule | None:
    """Return a module and its call on features of 0; None if its layers are not understood."""
    if not x.numel() or not targets.numel():
        return None
    num_nodes = x.shape[0] + count
    start = torch.cat([x, x.new_zeros((count, x.shape[1]))])
    forward = keeping_state(adapter.module, adapter.with_graph(edge_index, num_nodes, {}))
    try:
        with torch.no_grad(), isolated_randomness(0):
            clean, calls = recorded_calls(adapter.module, lambda: forward(start))
    except (ModelError, RuntimeError):  # the attack meets it, too
        return None
    if not calls or clean.shape[:1] != (num_nodes,):
        return None
    injected = torch.arange(x.shape[0], num_nodes, device=x.device)
    return _RecordedModule(forward, calls, start, clean, injected, targets)


@dataclass(frozen=True, eq=False)
class _RecordedModule:
    """A module, and what it was given and returned on a graph of M nodes.

    Attributes:
        forward: calls the module.
        calls: of its layers.
        start: float [M, d], features, 0 for injected nodes.
        clean: float [M, c], its output.
        injected: int64 [n], the last nodes.
        targets: int64 [t].
    """

    forward: OnRows
    calls: Sequence[LayerCall]
    start: Tensor
    clean: Tensor
    injected: Tensor
    targets: Tensor

    def row_sets(self, links: Links | None) -> Iterator[Sequence[Tensor]]:
        """Yield the rows before the first layer, and after each, int64 [.]; the fewest first.

        A module that adds up rows from before and after a layer needs the same ones on both sides.
        If links have weights, all that they may join are among the rows after each layer.
        """
        num_nodes = self.start.shape[0]
        joined = self.injected[:0]
        if links is not None:
            joined = torch.cat([self.injected, links.candidates])
        # All neighbours of a candidate change with its degree, if layers divide by the sender's.
        scaled = links is not None and any(map(divides_by_senders_degree, self.calls))
        changed = joined if scaled else self.injected
        reached = [index_to_mask(changed, num_nodes)]
        for call in self.calls:
            reached.append(_grown(reached[-1], call.edge_index, links))
        needed = [index_to_mask(self.targets, num_nodes)]
        for call in reversed(self.calls):
            needed.append(_grown(needed[-1], call.edge_index.flip(0), links))
        first, *others = (r & n for r, n in zip(reached, reversed(needed), strict=True))
        others = [mask | index_to_mask(joined, num_nodes) for mask in others]
        any_time = torch.stack([first, *others]).any(dim=0)
        every = [any_time] * len(others)
        for masks in ([first, *others], [first, *every], [any_time, *every]):
            yield [mask.nonzero().squeeze(1) for mask in masks]

    def on_rows(self, sets: Sequence[Tensor], links: Links | None) -> RestrictedLayer | None:
        """Return the map from injected features, and weights of links, to the targets' output.

        None if a layer has no closed form and there are links.
        """
        parts = []
        for call, before, after in zip(self.calls, sets, sets[1:], strict=False):
            part = restricted(call, Rows(before, after, self.start.shape[0], links))
            if part is None:
                return None
            parts.append(part)
        first = spread(self.start, self.injected, sets[0])
        last = spread(self.clean, sets[-1], self.targets)

        def logits(features: Tensor, of_links: Tensor | None) -> Tensor:
            given = [partial(_weighted, part, of_links) for part in parts]
            return last(replayed(self.forward, self.calls, given, first(features)))

        return logits


def _grown(mask: Tensor, edges: Tensor, links: Links | None) -> Tensor:
    """Return the mask with the targets of all edges, and other ends of links, of nodes in it."""
    source, target = edges
    larger = mask.clone()
    larger[target[mask[source]]] = True
    if links is not None:
        larger[links.candidates] |= mask[links.injected].any()
        larger[links.injected] |= mask[links.candidates].any()
    return larger


@dataclass(frozen=True, eq=False)
class _FeatureTrial:
    """A module's own answers for features of random nodes, and random ones in the range of all.

    Attributes:
        features: float [count, d], twice.
        answers: of the whole module.
        clean: float [t, c], its output without features.
        width: of the range of the features.
    """

    features: tuple[Tensor, Tensor]
    answers: Answers
    clean: Tensor
    width: float

    def passed(self, logits_of: OnRows) -> bool:
        """Return whether a map on rows gives the same answers."""
        try:
            answers = _answers(logits_of, self.features, self.width)
        except (ModelError, RuntimeError, IndexError):
            return False
        return agrees(answers, self.answers, self.clean)


def _trial_of(whole: OnRows, x: Tensor, count: int, clean: Tensor) -> _FeatureTrial | None:
    """Return the trial of a module; None if it cannot be called or has no gradient."""
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randint(x.shape[0], (count,), generator=generator)
    uniform = torch.rand((count, x.shape[1]), generator=generator).to(x)
    low, high = float(x.min()), float(x.max())
    features = x[chosen.to(x.device)], low + (high - low) * uniform
    try:
        answers = _answers(whole, features, high - low)
    except (ModelError, RuntimeError):  # such as no backward pass; the attack meets it, too
        return None
    if answers.gradient is None:
        return None
    return _FeatureTrial(features, answers, clean, high - low)


def _answers(logits_of: OnRows, features: tuple[Tensor, Tensor], width: float) -> Answers:
    """Return both outputs, and the gradient of the second.

    With another seed than that of the recorded call: rows that are taken from there must not differ
    by random numbers that the module draws.
    """
    with torch.no_grad(), isolated_randomness(1):
        first = logits_of(features[0])
    second, gradient = along_direction(logits_of, features[1], seed=1)
    return Answers((first, second), None if gradient is None else width * gradient)
