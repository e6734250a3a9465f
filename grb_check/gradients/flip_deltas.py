"""Logits of targets under many sets of flips, of which only the rows that they reach are computed.

For models whose layers propagate with P = c D^a (A + loop I) D^b (see `normalisation`) and are
row-wise in between. Of the current graph u = D^b h and o = (A + loop I) u are kept for each layer.
A candidate changes A by dA, and with it the degrees of the ends of its flips, so that

    do = (A + loop I) du + dA (u + du),

where du is 0 except at rows that the layer before has changed, and at the ends of the flips. A
layer thus costs the edges of these rows. Many candidates are computed at once: a row is the number
of a candidate times N, plus a node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Protocol

import torch
from torch import Tensor

from grb_check.attacks.protocol import ChangedLogits, FlipSets, parts_of
from grb_check.gradients.alternating import Alternating
from grb_check.gradients.normalisation import Normalisation
from grb_check.victims.sparse import csr_matrix

MOST_ROWS: Final = 2**22  # candidates times nodes at a time; 9 bytes each
MOST_VALUES: Final = 2**24  # that a layer sends over edges at a time, 64 MiB of float32
FEW: Final = 32  # of so many rows one is there: sorting those costs less than to look at all
MOST_MOVED: Final = 100  # flips; more reach most of the graph
REFRESHED: Final = 200  # flip_sets after which all sums are computed anew, against rounding

# The number of a propagation and its input [r, a] -> its output [s, a].
Receive = Callable[[int, Tensor], Tensor]


class Layers(Protocol):
    """A model as propagations with row-wise maps before, between and after them."""

    @property
    def norms(self) -> Sequence[Normalisation]:
        """One for each propagation."""
        ...

    @property
    def keeps_rows(self) -> bool:
        """Whether every map needs the same rows; else each takes those that `receive` returns."""
        ...

    def logits(self, nodes: Tensor, receive: Receive) -> Tensor:
        """Return logits float [s, c], beginning with the rows of nodes int64 [r]."""
        ...


@dataclass(frozen=True, eq=False)
class AlternatingLayers:
    """An `Alternating` model whose first map has been applied.

    Attributes:
        model: in evaluation mode, its parameters frozen.
        first: float [N, a], f_0(x).
        finish: row by row, from what the model returns to logits float [s, c].
    """

    model: Alternating
    first: Tensor
    finish: Callable[[Tensor], Tensor]

    @property
    def norms(self) -> Sequence[Normalisation]:
        return [self.model.normalisation] * (len(self.model.stages()) - 1)

    @property
    def keeps_rows(self) -> bool:
        return False

    def logits(self, nodes: Tensor, receive: Receive) -> Tensor:
        h = self.first.index_select(0, nodes)
        for number, stage in enumerate(self.model.stages()[1:]):
            h = stage(receive(number, h))
        return self.finish(h)


def alternating_layers(
    model: Alternating, x: Tensor, finish: Callable[[Tensor], Tensor]
) -> AlternatingLayers:
    """Return an `Alternating` model as `Layers`, for features float [N, d]."""
    with torch.no_grad():
        return AlternatingLayers(model, model.stages()[0](x), finish)


class DeltaTrials:
    """`FlipTrials` of a model of `Layers`, at the cost of the rows that flips reach.

    Args:
        layers: of the model.
        edge_index: int64 [2, 2E], both directions of each edge.
        num_nodes: N.
        targets: int64 [t], distinct.
    """

    def __init__(self, layers: Layers, edge_index: Tensor, num_nodes: int, targets: Tensor) -> None:
        self._layers, self._targets, self._num_nodes = layers, targets, num_nodes
        self._norms = list(layers.norms)
        self._place = torch.full((num_nodes,), -1, device=targets.device)
        self._place[targets] = torch.arange(targets.numel(), device=targets.device)
        self._row_set = _RowSet(targets.device)
        self._codes = (edge_index[0] * num_nodes + edge_index[1]).sort().values
        self._logits: Tensor
        self._moves = 0
        self._visited = 0
        self._of_a_pass = len(self._norms) * (num_nodes + self._codes.numel())
        self._refresh()

    @property
    def work(self) -> float:
        """Rows and edges so far, as a share of those of a forward pass on the first graph."""
        return self._visited / self._of_a_pass

    @property
    def hops(self) -> int:
        """How far the ends of a flip are from the targets that it changes, at most.

        A layer that divides by the senders' degrees changes the neighbours of an end already.
        """
        return len(self._norms) - (0 if self._norms and self._norms[0].right else 1)

    def logits(self) -> Tensor:
        """Return float [t, c] in the current graph."""
        return self._logits

    def tried(self, flip_sets: FlipSets) -> ChangedLogits:
        """Return what each candidate changes, see `FlipTrials`."""
        most = max(1, MOST_ROWS // self._num_nodes)
        if flip_sets.count > most:
            return self._in_parts(flip_sets, most)
        reach = self._reach(flip_sets, self._place >= 0)
        if reach is None:
            return self._in_parts(flip_sets, -(-flip_sets.count // 2))
        logits, _, _ = self._computed(flip_sets, reach)
        nodes = reach.last % self._num_nodes
        return ChangedLogits(reach.last // self._num_nodes, self._place[nodes], logits)

    def move(self, pairs: Tensor) -> None:
        """Flip pairs int64 [2, m], each once, in the current graph."""
        if not pairs.numel():
            return
        self._moves += 1
        flip_sets = _one_set(pairs)
        reach = None
        if self._moves % REFRESHED and pairs.shape[1] <= MOST_MOVED:
            reach = self._reach(flip_sets, torch.ones_like(self._place, dtype=torch.bool))
        if reach is not None:
            logits, sent, sums = self._computed(flip_sets, reach)
            for number, (u, o) in enumerate(zip(sent, sums, strict=True)):
                self._sent[number][reach.inputs(number)] = u
                self._sums[number][reach.outputs(number)] = o
            positions = self._place[reach.last]
            self._logits = self._logits.index_copy(
                0, positions[positions >= 0], logits[positions >= 0]
            )
        self._codes = toggled(self._codes, self._both_codes(pairs))
        self._index()
        if reach is None:
            self._refresh()

    def _in_parts(self, flip_sets: FlipSets, size: int) -> ChangedLogits:
        parts = list(parts_of(flip_sets, size))
        return joined_changes([self.tried(part) for part in parts], [part.count for part in parts])

    def _both_codes(self, pairs: Tensor) -> Tensor:
        first, second = pairs
        return torch.cat([first * self._num_nodes + second, second * self._num_nodes + first])

    def _index(self) -> None:
        """Find the edges of each node among the sorted codes."""
        nodes = torch.arange(self._num_nodes + 1, device=self._codes.device)
        self._starts = torch.searchsorted(self._codes, nodes * self._num_nodes)
        self._degrees = self._starts.diff()
        self._others = self._codes % self._num_nodes

    def _refresh(self) -> None:
        """Compute the sums of all nodes in the current graph."""
        self._index()
        self._visited += len(self._norms) * (self._num_nodes + self._codes.numel())
        self._sent: list[Tensor] = []
        self._sums: list[Tensor] = []

        def receive(number: int, h: Tensor) -> Tensor:
            norm = self._norms[number]
            left, right = norm.scales(self._degrees.to(h.dtype))
            ones = h.new_ones(self._others.numel())
            rows = self._codes // self._num_nodes
            matrix = csr_matrix(rows, self._others, ones, self._num_nodes)
            self._sent.append(right[:, None] * h)
            self._sums.append(matrix @ self._sent[-1] + norm.loop * self._sent[-1])
            return norm.factor * left[:, None] * self._sums[-1]

        with torch.no_grad():
            nodes = torch.arange(self._num_nodes, device=self._codes.device)
            self._logits = self._layers.logits(nodes, receive)[self._targets]

    def _reach(self, flip_sets: FlipSets, requested: Tensor) -> _Reach | None:
        """Return the rows that candidates change; None if they are too many at once.

        Args:
            requested: bool [N], nodes whose logits are asked for.
        """
        num_nodes, size = self._num_nodes, flip_sets.count * self._num_nodes
        ends = flip_sets.owner * num_nodes + flip_sets.pairs
        touched = self._row_set.distinct([ends.flatten()], size)
        levels = [touched]
        spreads: list[tuple[Tensor, Tensor, Tensor]] = []
        for norm, sent in zip(self._norms, self._sent, strict=True):
            changed = levels[-1] if spreads or norm.right else touched[:0]
            entries = int(self._degrees[changed % num_nodes].sum())
            if flip_sets.count > 1 and entries * sent.shape[1] > MOST_VALUES:
                return None
            spreads.append((changed, *self._neighbours(changed)))
            after = self._row_set.distinct([touched, changed, spreads[-1][2]], size)
            if len(spreads) == len(self._norms) - 1:  # of what the last one is given, what it needs
                needed = after[self._next_to(requested)[after % num_nodes]]
                after = self._row_set.distinct([touched, needed], size)
            levels.append(after)
            self._visited += entries + levels[-1].numel()
        last = levels[-1][requested[levels[-1] % num_nodes]]
        rows = None
        if self._layers.keeps_rows:
            rows = self._row_set.distinct([*levels[:-1], last], size)
        return _Reach(ends, touched, levels, last, spreads, rows)

    def _next_to(self, requested: Tensor) -> Tensor:
        """Return the nodes bool [N] that are requested, or are neighbours of such."""
        result = requested.clone()
        result[self._others[requested.repeat_interleave(self._degrees)]] = True
        return result

    def _neighbours(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return for each edge at rows [r] the position of the row and the row at its other end."""
        nodes = rows % self._num_nodes
        counts = self._degrees[nodes]
        source = torch.repeat_interleave(counts)
        first = counts.cumsum(0) - counts
        edge = torch.arange(source.numel(), device=rows.device)
        edge += (self._starts[nodes] - first).index_select(0, source)
        base = (rows - nodes).index_select(0, source)
        return source, base + self._others.index_select(0, edge)

    def _computed(
        self, flip_sets: FlipSets, reach: _Reach
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Return logits [q, c] of the last rows, and u and o of each layer's inputs and outputs."""
        sent: list[Tensor] = []
        sums: list[Tensor] = []
        change = self._change_of(flip_sets)
        by_end, _ = self._row_set.places(reach.touched, reach.ends.flatten())
        before = self._degrees[reach.touched % self._num_nodes]
        degrees = before.index_add(0, by_end, change.repeat(2))

        def receive(number: int, h: Tensor) -> Tensor:
            norm, inputs, outputs = self._norms[number], reach.inputs(number), reach.outputs(number)
            left, right = norm.scales(self._degrees.to(h.dtype))
            new_left, new_right = norm.scales(degrees.to(h.dtype))
            changed, source, target = reach.spreads[number]

            at_touched, _ = self._row_set.places(inputs, reach.touched)
            at_changed, _ = self._row_set.places(inputs, changed)
            nodes = inputs % self._num_nodes
            scale = right[nodes].index_copy(0, at_touched, new_right)
            u = scale[:, None] * h
            du = u.index_select(0, at_changed)
            du -= self._sent[number].index_select(0, changed % self._num_nodes)
            of_ends = u.index_select(0, at_touched.index_select(0, by_end))
            of_ends *= change.repeat(2)[:, None]

            nodes = outputs % self._num_nodes
            o = self._sums[number].index_select(0, nodes)
            self._add(o, outputs, target, du, source)
            if norm.loop:
                self._add(o, outputs, changed, norm.loop * du)
            self._add(o, outputs, reach.ends.flip(0).flatten(), of_ends)
            at_touched, inside = self._row_set.places(outputs, reach.touched)
            scale = left[nodes].index_copy(0, at_touched[inside], new_left[inside])
            sent.append(u)
            sums.append(o)
            return norm.factor * scale[:, None] * o

        nodes = reach.inputs(0) % self._num_nodes
        with torch.no_grad():
            logits = self._layers.logits(nodes, receive)
        if reach.rows is not None:
            logits = logits[self._row_set.places(reach.rows, reach.last)[0]]
        return logits, sent, sums

    def _change_of(self, flip_sets: FlipSets) -> Tensor:
        """Return int64 [m]: 1 for a pair that is added, -1 for one that is removed."""
        codes = flip_sets.pairs[0] * self._num_nodes + flip_sets.pairs[1]
        return 1 - 2 * _among(self._codes, codes).long()

    def _add(
        self, sums: Tensor, rows: Tensor, at: Tensor, values: Tensor, source: Tensor | None = None
    ) -> None:
        """Add values, of which `source` selects one for each, to the sums of those rows `at`."""
        positions, inside = self._row_set.places(rows, at)
        if not bool(inside.all()):
            positions = positions[inside]
            source = inside.nonzero().squeeze(1) if source is None else source[inside]
        sums.index_add_(0, positions, values if source is None else values.index_select(0, source))


@dataclass(frozen=True, eq=False)
class _Reach:
    """The rows that candidates change; all int64 and ascending, except for the ends.

    Attributes:
        ends: [2, m], of the flips.
        touched: the distinct ones.
        levels: the rows that differ before the first propagation, after it, ...; each has the ends.
        last: of the last level, those whose logits are asked for.
        spreads: for each propagation the rows whose u changes, and of each edge at them the
            position of that row, and the row at its other end.
        rows: those that every map of the model is given; None if each level has its own.
    """

    ends: Tensor
    touched: Tensor
    levels: list[Tensor]
    last: Tensor
    spreads: list[tuple[Tensor, Tensor, Tensor]]
    rows: Tensor | None

    def inputs(self, number: int) -> Tensor:
        """Return the rows that a propagation is given."""
        return self.levels[number] if self.rows is None else self.rows

    def outputs(self, number: int) -> Tensor:
        """Return the rows that it returns."""
        if self.rows is not None:
            return self.rows
        return self.last if number == len(self.spreads) - 1 else self.levels[number + 1]


class _RowSet:
    """Set operations on rows, by an array with a place for each row."""

    def __init__(self, device: torch.device) -> None:
        self._marks = torch.zeros(0, dtype=torch.bool, device=device)
        self._places = torch.zeros(0, dtype=torch.int64, device=device)

    def distinct(self, parts: Sequence[Tensor], size: int) -> Tensor:
        """Return the rows below `size` that are in some part, each once, ascending."""
        if self._marks.numel() < size:
            self._marks = self._marks.new_zeros(size)
            self._places = self._places.new_zeros(size)
        if sum(part.numel() for part in parts) < size // FEW:
            few: Tensor = torch.unique(torch.cat(list(parts)))
            return few
        for part in parts:
            self._marks[part] = True
        result = self._marks[:size].nonzero().squeeze(1)
        self._marks[result] = False
        return result

    def places(self, rows: Tensor, requested: Tensor) -> tuple[Tensor, Tensor]:
        """Return the positions of rows among distinct ones, and which of them are there, bool."""
        if not rows.numel():
            return torch.zeros_like(requested), torch.zeros_like(requested, dtype=torch.bool)
        self._places[rows] = torch.arange(rows.numel(), device=rows.device)
        # Others have the places of earlier calls.
        result = self._places.index_select(0, requested).clamp_(max=rows.numel() - 1)
        return result, rows.index_select(0, result) == requested


def _among(codes: Tensor, requested: Tensor) -> Tensor:
    """Return bool [m]: which are among the ascending codes [e]."""
    if not codes.numel():
        return torch.zeros_like(requested, dtype=torch.bool)
    positions = torch.searchsorted(codes, requested).clamp(max=codes.numel() - 1)
    return codes[positions] == requested


def toggled(codes: Tensor, changed: Tensor) -> Tensor:
    """Return ascending codes without those of `changed` that are there, and with the others."""
    changed = changed.sort().values
    there = _among(codes, changed)
    retained = torch.ones_like(codes, dtype=torch.bool)
    retained[torch.searchsorted(codes, changed[there])] = False
    codes, new = codes[retained], changed[~there]
    positions = torch.searchsorted(codes, new) + torch.arange(new.numel(), device=codes.device)
    merged = codes.new_empty(codes.numel() + new.numel())
    old = torch.ones_like(merged, dtype=torch.bool)
    old[positions] = False
    merged[positions], merged[old] = new, codes
    return merged


def _one_set(pairs: Tensor) -> FlipSets:
    """Return a single candidate that flips all pairs int64 [2, m]."""
    return FlipSets(pairs, torch.zeros_like(pairs[0]), 1)


def joined_changes(parts: Sequence[ChangedLogits], counts: Sequence[int]) -> ChangedLogits:
    """Return the changes of candidates that were tried in parts, numbered through.

    Args:
        parts: in order.
        counts: number of candidates of each.
    """
    firsts = accumulate(counts, initial=0)
    owners = [part.owner + first for part, first in zip(parts, firsts, strict=False)]
    return ChangedLogits(
        torch.cat(owners),
        torch.cat([part.position for part in parts]),
        torch.cat([part.logits for part in parts]),
    )
