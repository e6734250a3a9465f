"""Logits as a function of the features of injected nodes, for modules around PyG's layers.

`alternating` needs a model that declares its layers. Here a module of any kind runs its own
`forward`, in which each layer of PyG is replaced by its restriction to the rows that injected nodes
change and targets need (`changed_rows`), with all other rows taken from a recorded call. The rest
of the module, such as norms, activations and skip connections, is called on fewer rows.

That is right for modules whose other parts work row by row and whose layers reach one hop each. No
type says that: a trial does, on the same graph and targets. A form without edges is tried first
(`linear_rows`), for modules that propagate over many hops at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

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
    Replay,
    keeping_state,
    recorded_calls,
)
from grb_check.gradients.linear_rows import LinearRows, linear_rows
from grb_check.gradients.no_indices import OtherCallError
from grb_check.gradients.sparse_sums import summed_logits
from grb_check.gradients.trial import Answers, agrees, along_direction
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter

LinkedLogits = Callable[[Tensor, Tensor], Tensor]
LINEAR: Final = 0  # number of the form of `linear_rows`
NO_FORM: Final = -1


@dataclass
class RowForm:
    """Which form of a module on fewer rows passed the first trial: the one for all topologies.

    On others only its output is compared, without a gradient.

    Attributes:
        number: of the form, `NO_FORM` if all failed; None before the first trial.
    """

    number: int | None = None


def injected_row_logits(
    adapter: Adapter, x: Tensor, edge_index: Tensor, count: int, targets: Tensor, known: RowForm
) -> OnRows | None:
    """Return the map from features [count, d] of injected nodes to the output [t, c] at targets.

    Args:
        adapter: of a module in evaluation mode, its parameters frozen.
        x: float [N, d], features of the existing nodes.
        edge_index: int64 [2, e] of the graph of N + count nodes; the injected nodes come last.
        count: number of injected nodes.
        targets: int64 [t], distinct nodes.
        known: of the module; written by the first call.

    Returns:
        None if the module has no layers of PyG, calls them in an unknown way, or fails the trial.
    """
    if known.number == NO_FORM:
        return None
    topology = adapter.on_topology(edge_index, x.shape[0] + count)

    def whole(features: Tensor) -> Tensor:
        return topology(torch.cat([x, features]))[targets]

    graph = _InjectedGraph.of(adapter, x, edge_index, count, targets)
    if graph is None:
        return None
    trial = _Trial.on(x, count, first=known.number is None)
    if known.number == LINEAR:
        return _linear_again(graph, trial, whole)
    module = graph.recorded()
    if module is None:
        return None
    answers = trial.answers(whole)
    if answers is None or (trial.first and answers.gradient is None):
        return None  # such as no backward pass; the attack meets it, too
    for number, form_of in enumerate(module.forms()):
        if number == known.number or trial.first:
            form = form_of()
            if form is not None and trial.passing(form, answers, module.clean[targets]):
                known.number, graph.replay.trusted = number, True
                return _or_whole(form, whole)
    if trial.first:
        known.number = NO_FORM
    return None


def _linear_again(graph: _InjectedGraph, trial: _Trial, whole: OnRows) -> OnRows | None:
    """Return the linear form, for which no calls of layers are recorded; None if it fails."""
    answers = trial.answers(whole)
    form = None if answers is None else graph.linear()
    if answers is None or form is None or not trial.passing(form.logits, answers, form.clean):
        return None
    graph.replay.trusted = True
    return _or_whole(form.logits, whole)


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

    graph = _InjectedGraph.of(adapter, x, edge_index, count, targets)
    module = None if graph is None else graph.recorded()
    if module is None or not module.calls:
        return None
    trial = _Trial.on(x, count, first=True)
    answers = trial.answers(whole)
    if answers is None or answers.gradient is None:
        return None
    for sets in module.row_sets(links):
        logits_of = module.on_rows(sets, links)
        if logits_of is None:
            return None
        if trial.passing(partial(_weighted, logits_of, pattern), answers, module.clean[targets]):
            module.graph.replay.trusted = True
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


@dataclass(frozen=True, eq=False)
class _InjectedGraph:
    """A module on a graph of M nodes, whose last ones are injected.

    Attributes:
        adapter: of the module, in evaluation mode.
        replay: calls it.
        start: float [M, d], features, 0 for injected nodes.
        injected: int64 [n], the last nodes.
        targets: int64 [t].
    """

    adapter: Adapter
    replay: Replay
    start: Tensor
    injected: Tensor
    targets: Tensor

    @classmethod
    def of(
        cls, adapter: Adapter, x: Tensor, edge_index: Tensor, count: int, targets: Tensor
    ) -> _InjectedGraph | None:
        """Return the module on a graph, whose arguments are those of `injected_row_logits`.

        None if there is nothing to restrict.
        """
        if not x.numel() or not targets.numel():
            return None
        num_nodes = x.shape[0] + count
        return cls(
            adapter,
            Replay(keeping_state(adapter.module, adapter.with_graph(edge_index, num_nodes, {}))),
            torch.cat([x, x.new_zeros((count, x.shape[1]))]),
            torch.arange(x.shape[0], num_nodes, device=x.device),
            targets,
        )

    def linear(self) -> LinearRows | None:
        """Return the form of `linear_rows`; None if it does not apply, or the module fails."""
        try:
            return linear_rows(self.adapter, self.replay, self.start, self.injected, self.targets)
        except (ModelError, RuntimeError):  # the attack meets it, too
            return None

    def recorded(self) -> _RecordedModule | None:
        """Return the module with the calls of its layers; None if it fails."""
        module = self.adapter.module
        try:
            with torch.no_grad(), isolated_randomness(0):
                clean, calls = recorded_calls(
                    module, lambda: self.replay.forward(self.start), self.start.shape[0]
                )
        except (ModelError, RuntimeError):
            return None
        if clean.shape[:1] != self.start.shape[:1]:
            return None
        return _RecordedModule(self, clean, calls)


@dataclass(frozen=True, eq=False)
class _RecordedModule:
    """A module, and what its layers were given and it returned for features of 0.

    Attributes:
        graph: with the module.
        clean: float [M, c], its output.
        calls: of its layers; none if one is not understood.
    """

    graph: _InjectedGraph
    clean: Tensor
    calls: Sequence[LayerCall]

    def forms(self) -> Iterator[Callable[[], OnRows | None]]:
        """Yield what makes a map from injected features to the targets' output, the fastest first.

        Without links; None is a form that does not apply.
        """
        yield self._linear
        for sets in self.row_sets(None) if self.calls else ():
            yield partial(self._without_links, sets)
        yield self._summed

    def _linear(self) -> OnRows | None:
        form = self.graph.linear()
        return None if form is None else form.logits

    def _summed(self) -> OnRows | None:
        graph = self.graph
        return summed_logits(
            graph.adapter.module, graph.replay.forward, graph.start, graph.injected, graph.targets
        )

    def _without_links(self, sets: Sequence[Tensor]) -> OnRows | None:
        logits_of = self.on_rows(sets, None)
        return None if logits_of is None else partial(_weighted, logits_of, None)

    def row_sets(self, links: Links | None) -> Iterator[Sequence[Tensor]]:
        """Yield the rows before the first layer, and after each, int64 [.]; the fewest first.

        A module that adds up rows from before and after a layer needs the same ones on both sides.
        If links have weights, all that they may join are among the rows after each layer.
        """
        num_nodes = self.graph.start.shape[0]
        joined = self.graph.injected[:0]
        if links is not None:
            joined = torch.cat([self.graph.injected, links.candidates])
        # All neighbours of a candidate change with its degree, if layers divide by the sender's.
        scaled = links is not None and any(map(divides_by_senders_degree, self.calls))
        changed = joined if scaled else self.graph.injected
        reached = [index_to_mask(changed, num_nodes)]
        for call in self.calls:
            reached.append(_grown(reached[-1], call.edge_index, links))
        needed = [index_to_mask(self.graph.targets, num_nodes)]
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
            part = restricted(call, Rows(before, after, self.graph.start.shape[0], links))
            if part is None:
                return None
            parts.append(part)
        first = spread(self.graph.start, self.graph.injected, sets[0])
        last = spread(self.clean, sets[-1], self.graph.targets)

        def logits(features: Tensor, of_links: Tensor | None) -> Tensor:
            given = [partial(_weighted, part, of_links) for part in parts]
            return last(self.graph.replay(self.calls, given, first(features)))

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
class _Trial:
    """Features of injected nodes on which forms of a module are compared with the module.

    Attributes:
        features: float [n, d], random ones in the range of all, and rows of random nodes.
        width: of the range of the features.
        first: whether the module has not been tried yet: outputs for both, and the gradient at the
            random ones, are compared, or else the output for the random ones alone.
    """

    features: tuple[Tensor, Tensor]
    width: float
    first: bool

    @classmethod
    def on(cls, x: Tensor, count: int, *, first: bool) -> _Trial:
        """Return the trial for features float [N, d] of the existing nodes."""
        generator = torch.Generator().manual_seed(0)
        chosen = torch.randint(x.shape[0], (count,), generator=generator)
        uniform = torch.rand((count, x.shape[1]), generator=generator).to(x)
        low, high = float(x.min()), float(x.max())
        features = low + (high - low) * uniform, x[chosen.to(x.device)]
        return cls(features, high - low, first)

    def answers(self, logits_of: OnRows) -> Answers | None:
        """Return what is compared; None if the map cannot be called.

        With another seed than that of the recorded call: rows that are taken from there must not
        differ by random numbers that the module draws.
        """
        random, existing = self.features
        try:
            if not self.first:
                return Answers((_plain(logits_of, random),))
            output, gradient = along_direction(logits_of, random, seed=1)
            outputs = output, _plain(logits_of, existing)
        except (ModelError, RuntimeError, IndexError):
            return None
        return Answers(outputs, None if gradient is None else self.width * gradient)

    def passing(self, form: OnRows, answers: Answers, clean: Tensor) -> bool:
        """Return whether a form gives the answers of the module, whose output is [t, c] at 0."""
        given = self.answers(form)
        return given is not None and agrees(given, answers, clean)


def _plain(logits_of: OnRows, features: Tensor) -> Tensor:
    with torch.no_grad(), isolated_randomness(1):
        return logits_of(features)
