"""Logits of targets under many sets of flips, with a module's layers called on the rows they reach.

For modules of PyG's layers whose answer to a flip has no closed form: attention, a maximum, several
aggregations. What each layer is given on the current graph is recorded. A candidate then has a copy
of each node whose row it changes, and each layer is called on all copies and the nodes that send to
them, with the edges that lead into copies alone: from copies of the same candidate, and from the
recorded rows of other nodes. Between the layers the module itself is called on the copies.

A layer that looks at anything but the edges into a node, such as the degrees of senders, or a part
that mixes rows outside layers, gives something else then: a trial compares with the module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.protocol import ChangedLogits, FlipSets, parts_of
from grb_check.errors import ModelError, UnknownReachError
from grb_check.gradients.flip_deltas import joined_changes, toggled
from grb_check.gradients.layer_calls import (
    LayerCall,
    Replay,
    keeping_state,
    layers_of,
    recorded_calls,
)
from grb_check.gradients.no_indices import OtherCallError
from grb_check.gradients.recorded_layers import agree_with_module
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter

MOST_CODES: Final = 2**24  # candidates times nodes at a time, one byte each
MOST_ENTRIES: Final = 2**19  # edges into copies at a time
OF_A_CALL: Final = 5_000  # rows and edges that take as long as a call without any; our estimate


def row_trials(
    adapter: Adapter,
    x: Tensor,
    edge_index: Tensor,
    targets: Tensor,
    finish: Callable[[Tensor, int], Tensor],
) -> RowTrials | None:
    """Return those of a module of PyG's layers; None if a trial finds that they are wrong.

    For the arguments see `RowTrials`.
    """
    if not layers_of(adapter.module) or not targets.numel():
        return None
    try:
        trials = RowTrials(adapter, x, edge_index, targets, finish)
        same = agree_with_module(trials, adapter, x, edge_index, targets, finish)
    except (ModelError, RuntimeError):
        return None
    if not same:
        return None
    trials.trust()
    return trials


class RowTrials:
    """`FlipTrials` of a module of PyG's layers, at the cost of the edges into the rows that change.

    Args:
        adapter: of the module, in evaluation mode.
        x: float [N, d].
        edge_index: int64 [2, 2E], both directions of each edge.
        targets: int64 [t], distinct.
        finish: from the module's output for so many rows to logits.

    Raises:
        UnknownReachError: the module's layers are called in a way that is not understood. `move`
            and `tried` raise it, too, for a module that does something else on a changed graph.
    """

    def __init__(
        self,
        adapter: Adapter,
        x: Tensor,
        edge_index: Tensor,
        targets: Tensor,
        finish: Callable[[Tensor, int], Tensor],
    ) -> None:
        self._adapter, self._x, self._targets, self._finish = adapter, x, targets, finish
        self._num_nodes = x.shape[0]
        self._place = torch.full((self._num_nodes,), -1, device=x.device)
        self._place[targets] = torch.arange(targets.numel(), device=x.device)
        self._codes = (edge_index[0] * self._num_nodes + edge_index[1]).sort().values
        self._of_a_pass = OF_A_CALL + self._num_nodes + edge_index.shape[1]
        self._visited = 0
        self._trusted = False
        self._refresh()

    @property
    def work(self) -> float:
        """Rows and edges so far, as a share of those of a forward pass on the first graph."""
        return self._visited / self._of_a_pass

    @property
    def hops(self) -> int:
        """How far the ends of a flip are from the targets that it changes, at most."""
        return len(self._calls) - 1

    def trust(self) -> None:
        """Note that a trial has passed, see `Replay.trusted`."""
        self._trusted = self._replay.trusted = True

    def logits(self) -> Tensor:
        """Return float [t, c] in the current graph."""
        return self._logits

    def move(self, pairs: Tensor) -> None:
        """Flip pairs int64 [2, m], each once, in the current graph."""
        self._codes = toggled(self._codes, self._both_ways(pairs))
        self._visited += self._of_a_pass
        self._refresh()

    def tried(self, flip_sets: FlipSets) -> ChangedLogits:
        """Return what each candidate changes, see `FlipTrials`."""
        if flip_sets.count > 1 and flip_sets.count * self._num_nodes > MOST_CODES:
            return self._in_parts(flip_sets)
        copies, last = self._copies(flip_sets)
        edges = self._edges_into(copies, flip_sets)
        if flip_sets.count > 1 and edges.shape[1] > MOST_ENTRIES:
            return self._in_parts(flip_sets)
        senders, edges = self._renumbered(edges)
        self._visited += OF_A_CALL + senders.numel() + copies.numel() + edges.shape[1]
        nodes = copies % self._num_nodes
        logits = self._logits_of(nodes, senders, edges)[torch.searchsorted(copies, last)]
        return ChangedLogits(last // self._num_nodes, self._place[last % self._num_nodes], logits)

    def _in_parts(self, flip_sets: FlipSets) -> ChangedLogits:
        parts = list(parts_of(flip_sets, -(-flip_sets.count // 2)))
        return joined_changes([self.tried(part) for part in parts], [part.count for part in parts])

    def _both_ways(self, pairs: Tensor) -> Tensor:
        first, second = pairs
        return torch.cat([first * self._num_nodes + second, second * self._num_nodes + first])

    def _refresh(self) -> None:
        """Record what the layers are given on the current graph."""
        size = self._num_nodes
        nodes = torch.arange(size + 1, device=self._codes.device)
        self._starts = torch.searchsorted(self._codes, nodes * size)
        # Rows are the receiving ends; both directions of each edge are there.
        edge_index = torch.stack([self._codes % size, self._codes // size])
        module = self._adapter.module
        forward = self._adapter.with_graph(edge_index, size, {})
        self._replay = Replay(keeping_state(module, forward), self._trusted)
        with torch.no_grad(), isolated_randomness(0):
            called = partial(self._replay.forward, self._x)
            output, self._calls = recorded_calls(module, called, size)
        if not self._calls or any(_has_more(call, edge_index) for call in self._calls):
            raise UnknownReachError(
                f"model {self._adapter.name}: its layers are called in a way that is not understood"
            )
        self._forwards = [call.layer.forward for call in self._calls]
        self._logits = self._finish(output, size)[self._targets]

    def _copies(self, flip_sets: FlipSets) -> tuple[Tensor, Tensor]:
        """Return the rows that change and matter, candidate x N + node, int64 [r] ascending, and
        of these the targets whose logits may change [q].

        The ends change in the first layer, and their neighbours, old or new, in each further one.
        """
        size = self._num_nodes
        ends = (flip_sets.owner * size + flip_sets.pairs).flatten()
        inner = torch.unique(ends)
        reached = inner
        for _ in self._calls[1:]:
            inner = reached
            reached = torch.unique(torch.cat([reached, self._neighbours(reached)[1]]))
        last = reached[self._place[reached % size] >= 0]
        return torch.unique(torch.cat([inner, last])), last

    def _neighbours(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return for each edge into rows [r] the position of the row, and the row it comes from."""
        nodes = rows % self._num_nodes
        first = self._starts[nodes]
        counts = self._starts[nodes + 1] - first
        source = torch.repeat_interleave(counts)
        edge = torch.arange(source.numel(), device=rows.device)
        edge += (first - (counts.cumsum(0) - counts)).index_select(0, source)
        senders = (self._codes % self._num_nodes).index_select(0, edge)
        return source, (rows - nodes).index_select(0, source) + senders

    def _edges_into(self, copies: Tensor, flip_sets: FlipSets) -> Tensor:
        """Return the edges into copies, int64 [2, e]; node N + k is the copy k.

        Those of the current graph, less the removed ones, in their order, and then added ones.
        """
        size = self._num_nodes
        target, sender = self._neighbours(copies)
        into = copies[target] * size + sender % size  # candidate, receiver and sender in one code
        forth, back = flip_sets.pairs
        ends = torch.cat([torch.stack([forth, back]), torch.stack([back, forth])], dim=1)
        owner = flip_sets.owner.repeat(2)
        place = torch.searchsorted(copies, owner * size + ends[0])
        place = place.clamp_(max=copies.numel() - 1)
        there = copies[place] == owner * size + ends[0]
        place, receiver, other = place[there], (owner * size + ends[0])[there], ends[1][there]
        flipped = receiver * size + other
        removed = torch.isin(flipped, into)
        retained = ~torch.isin(into, flipped)
        target = torch.cat([target[retained], place[~removed]])
        base = receiver - receiver % size
        sender = torch.cat([sender[retained], (base + other)[~removed]])
        # From the copy of the same candidate, if the sender has one.
        found = torch.searchsorted(copies, sender).clamp_(max=copies.numel() - 1)
        source = torch.where(copies[found] == sender, size + found, sender % size)
        return torch.stack([source, size + target])

    def _renumbered(self, edges: Tensor) -> tuple[Tensor, Tensor]:
        """Return the nodes that send to copies, int64 [s], and the edges with these as 0 to s - 1.

        The copies follow them: node s + k is the copy k.
        """
        size = self._num_nodes
        sends = torch.zeros(size, dtype=torch.bool, device=edges.device)
        sends[edges[0][edges[0] < size]] = True
        senders = sends.nonzero().squeeze(1)
        number = sends.cumsum(0) - 1
        skipped = size - senders.numel()
        source, target = edges
        source = torch.where(source < size, number[source.clamp(max=size - 1)], source - skipped)
        return senders, torch.stack([source, target - skipped])

    def _logits_of(self, nodes: Tensor, senders: Tensor, edges: Tensor) -> Tensor:
        """Return the logits float [r, c] of copies of nodes int64 [r]."""
        parts = [
            partial(_on_copies, call, forward, senders, edges)
            for call, forward in zip(self._calls, self._forwards, strict=True)
        ]
        with torch.no_grad(), isolated_randomness(0):
            try:
                output = self._replay(self._calls, parts, self._x.index_select(0, nodes))
            except OtherCallError as error:
                raise UnknownReachError(f"model {self._adapter.name}: {error}") from error
        return self._finish(output, nodes.numel())


def _on_copies(
    call: LayerCall, forward: Callable[..., Tensor], senders: Tensor, edges: Tensor, h: Tensor
) -> Tensor:
    """Return what a layer gives the copies, float [r, b], of their features float [r, a].

    Its own `forward` is given, because it is replaced on the instance.
    """
    others = {name: value for name, value in call.others.items() if value is not None}
    x = torch.cat([call.x.index_select(0, senders), h])
    return forward(**{call.argument: x, "edge_index": edges, **others})[senders.numel() :]


def _has_more(call: LayerCall, edge_index: Tensor) -> bool:
    """Return whether a layer gets other edges than the module, or anything on them or on nodes."""
    tensors: Sequence[object] = [value for value in call.others.values() if value is not None]
    return (
        call.edge_index is not edge_index and not torch.equal(call.edge_index, edge_index)
    ) or any(not isinstance(value, (int, float, str, bool)) for value in tensors)
