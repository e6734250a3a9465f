"""Sources of candidate flips: a model's gradient for all pairs, or for random ones.

Flips as weights between 0 and 1: their gains, the step along these, and the projection.

Shared by the attacks on a single graph and on sets of graphs: each row is one graph, with its own
budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import torch
from torch import Tensor

from grb_check.attacks.modification.shared.edge_set import EdgeSet
from grb_check.attacks.objectives import Objective
from grb_check.attacks.protocol import DifferentiableModel, PairGradients
from grb_check.errors import GradientError

_Change = Callable[[Tensor], Tensor]

BLOCK: Final = 2**21  # pairs in a block, 8 MiB of float32
GPU_BLOCK: Final = 2**25  # each block waits for the one before
FIRST: Final = 2**17  # a small first block, whose best gains bound the rest


@dataclass(frozen=True, eq=False)
class RankedFlips:
    """Flips by descending gain.

    Attributes:
        codes: int64 [k].
        gains: float [k], the first-order gain of the objective by each flip.
    """

    codes: Tensor
    gains: Tensor


def best_flips(
    gradients: PairGradients,
    edges: EdgeSet,
    rows: Tensor,
    forbidden: Tensor,
    count: int,
    nodes: Tensor | None = None,
) -> RankedFlips:
    """Return the `count` pairs with an end in `rows` whose flip raises the objective most.

    The gain of adding a pair is its gradient, that of removing an edge minus its gradient. The
    result is that of the dense N x N gradient, in the memory of a few blocks. Rows are sorted by
    the size of their gradient, so that pairs which cannot reach the best found so far are skipped
    by the bound :math:`|v_i||u_j| + |v_j||u_i| + |t_i + t_j|`.

    Args:
        gradients: of the graph with these edges.
        edges: of the current graph.
        rows: int64 [m], distinct nodes.
        forbidden: int64 [f], codes of pairs that may not be flipped.
        count: number of pairs; fewer are returned if there are fewer.
        nodes: bool [N], the nodes that both ends must be among; None for all.
    """
    rows = rows if nodes is None else rows[nodes[rows]]
    if count <= 0 or not rows.numel():
        return RankedFlips(rows.new_empty(0), gradients.degrees.new_empty(0))
    scan = _Scan(gradients, edges, rows, forbidden, nodes)
    codes, gains = rows.new_empty(0), gradients.degrees.new_empty(0)
    block = BLOCK if rows.device.type == "cpu" else GPU_BLOCK
    start, size, result, pending = 0, FIRST, [(codes, gains)], 0
    while start < rows.numel():
        size = max(1, min(size // scan.num_columns, rows.numel() - start))
        lowest = float(gains[-1]) if gains.numel() == count else -math.inf
        result.append(scan.above(start, size, lowest, count))
        pending += result[-1][0].numel()
        start, size = start + size, block
        if pending >= count or start == rows.numel():  # merge rarely: each merge sorts everything
            every, values = (torch.cat(parts) for parts in zip(*result, strict=True))
            gains, order = values.topk(min(count, values.numel()))
            codes = every[order]
            result, pending = [(codes, gains)], 0
    return RankedFlips(codes, gains)


class _Scan:
    """Blocks of the matrix of gains; each pair appears in the row of the end that comes first."""

    def __init__(
        self,
        gradients: PairGradients,
        edges: EdgeSet,
        rows: Tensor,
        forbidden: Tensor,
        nodes: Tensor | None,
    ) -> None:
        self._gradients, self._edges = gradients, edges
        num_nodes = edges.num_nodes
        self._sent = gradients.inputs.norm(dim=1)
        self._received = gradients.outputs.norm(dim=1)
        first = self._received.new_zeros(num_nodes)
        first[rows] = 1 + self._received[rows] / self._received.max().clamp(min=1e-30)
        self._order = first.argsort(descending=True, stable=True)  # rows first, largest first
        self._place = torch.empty_like(self._order)
        self._place[self._order] = torch.arange(num_nodes, device=rows.device)
        if nodes is not None:  # places from here on are in no block
            self._order = self._order[nodes[self._order]]
            first_closed = self._order.numel()
            self._place.fill_(first_closed)
            self._place[self._order] = torch.arange(first_closed, device=rows.device)
        self.num_columns = self._order.numel()
        self._present = self._located(edges.codes)
        self._forbidden = self._located(forbidden)

    def above(self, start: int, size: int, lowest: float, count: int) -> tuple[Tensor, Tensor]:
        """Return codes and gains of the best `count` above `lowest` in `size` rows from `start`."""
        rows, positions = self._order[start : start + size], self._reachable(start, size, lowest)
        gains = self._gradients.block(rows, self._order[positions])
        self._at(gains, self._present, start, positions, torch.neg)
        self._at(gains, self._forbidden, start, positions, _never)
        # Each pair of two rows of this block counts once; a node has no pair with itself.
        inner = int(torch.searchsorted(positions, start + size))
        row_numbers = torch.arange(start, start + size, device=positions.device)
        gains[:, :inner].masked_fill_(positions[:inner] <= row_numbers[:, None], -math.inf)
        result = (gains > lowest).flatten().nonzero().squeeze(1)
        values = gains.flatten()[result]
        values, best = values.topk(min(count, values.numel()))
        row, column = result[best] // positions.numel(), result[best] % positions.numel()
        ends = torch.stack([rows[row], self._order[positions[column]]])
        return self._edges.encode(ends), values

    def _reachable(self, start: int, size: int, lowest: float) -> Tensor:
        """Return places from `start` on whose pairs with the block's rows may exceed `lowest`."""
        positions = torch.arange(start, self._order.numel(), device=self._order.device)
        if lowest == -math.inf:
            return positions
        rows, columns = self._order[start : start + size], self._order[start:]
        t = self._gradients.degrees
        bound = self._received[rows].max() * self._sent[columns]
        bound += self._sent[rows].max() * self._received[columns]
        bound += t[rows].abs().max() + t[columns].abs()
        return positions[~(bound * (1 + 1e-5) <= lowest)]  # NaN is not a bound

    def _located(self, codes: Tensor) -> Tensor:
        """Return places [2, m] of the ends of pairs, the end that comes first as a row on top."""
        positions = self._place[self._edges.ends(codes)]
        positions = torch.stack([positions.amin(0), positions.amax(0)])
        return positions[:, positions[0].argsort()]

    def _at(
        self, gains: Tensor, located: Tensor, start: int, places: Tensor, change: _Change
    ) -> None:
        """Change the gains [r, c] of the pairs that are in the block, in place."""
        edge = located[0].new_tensor([start, start + gains.shape[0]])
        low, high = torch.searchsorted(located[0], edge).tolist()
        row, column = located[:, low:high]
        where = torch.searchsorted(places, column).clamp(max=max(0, places.numel() - 1))
        held = (
            places[where] == column if places.numel() else torch.zeros_like(row, dtype=torch.bool)
        )
        row, where = row[held] - start, where[held]
        gains[row, where] = change(gains[row, where])


def _never(gains: Tensor) -> Tensor:
    return torch.full_like(gains, -math.inf)


SETTLING: Final = 10  # steps after which the step size begins to fall
NEGLIGIBLE: Final = 1e-4  # weights up to this are dropped
_HALVINGS: Final = 60


def gains_of_flips(value: Callable[[Tensor], Tensor], present: Tensor, flipped: Tensor) -> Tensor:
    """Return the gain of flipping each pair a little more, float [m]; 0 where it is not finite.

    Args:
        value: from weights of the pairs float [m], 0 for none and 1 for an edge, to the objective.
        present: bool [m], which pairs are edges.
        flipped: float [m], 0 to 1, how much each pair is flipped.
    """
    was = present.to(flipped.dtype)
    variable = flipped.detach().clone().requires_grad_()
    with torch.enable_grad():
        total = value(was + (1 - 2 * was) * variable)
        (gradient,) = torch.autograd.grad(total, variable)
    return torch.where(gradient.isfinite(), gradient, 0.0)


def stepped(weights: Tensor, gains: Tensor, budgets: Tensor, step_size: float, step: int) -> Tensor:
    r"""Return weights float [V, m] after a step along the gains [V, m], not yet projected.

    Its size is relative to the mean size of the largest gains of each row, as many as its budget,
    so that it depends neither on the number of nodes nor on the scale of the objective, and decays
    as :math:`1 / \sqrt{1 + t / 10}`.

    Args:
        gains: -inf where there is no pair.
        budgets: int64 [V].
        step: t, from 0.
    """
    most = min(int(budgets.max()), gains.shape[1])
    largest = gains.topk(most, dim=1).values
    position = torch.arange(most, device=gains.device)
    counted = (position < budgets[:, None]) & largest.isfinite()
    mean = largest.abs().where(counted, 0.0).sum(1) / counted.sum(1).clamp(min=1)
    size = step_size / math.sqrt(1 + step / SETTLING)
    return weights + size * gains / mean.clamp(min=1e-30)[:, None]


def project(weights: Tensor, budgets: Tensor) -> Tensor:
    r"""Project on weights [V, m] with :math:`0 \le p_k \le 1` and row sums of at most budgets [V].

    `Topology Attack and Defense <https://arxiv.org/abs/1906.04214>`_ (Xu et al. 2019, equation 11):
    clip p - mu, with mu found by bisection, of all rows at once.
    """
    clipped = weights.clamp(0, 1)
    over = clipped.sum(1) > budgets
    if not bool(over.any()):
        return clipped
    low, high = weights.amin(1).double() - 1, weights.amax(1).double()
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        lowered = weights - middle.to(weights.dtype)[:, None]
        above = lowered.clamp(0, 1).sum(1) > budgets
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    lowered = weights - high.to(weights.dtype)[:, None]
    return torch.where(over[:, None], lowered.clamp(0, 1), clipped)


CHOSEN: Final = 4  # one of that many random pairs becomes a candidate
NO_GRADIENT: Final = (
    "the model gives no gradient for edges: it takes no weights of them, neither as edge_weight "
    "nor as a matrix nor on the messages of its layers; leave the attack out"
)
MOST_RANKED: Final = 20_000  # nodes whose pairs are all ranked at a time


@dataclass(frozen=True, eq=False)
class Aim:
    """The aim of an attack on edges.

    Attributes:
        model: the model under attack.
        x: float32 [N, d].
        targets: int64 [t].
        labels: int64 [t], to move away from.
        objective: function of logits and labels, to be maximised.
        rows: int64 [m], nodes of which every flip has one.
    """

    model: DifferentiableModel
    x: Tensor
    targets: Tensor
    labels: Tensor
    objective: Objective
    rows: Tensor

    def value(self, logits: Tensor) -> Tensor:
        """Return the objective of the targets' logits [t, c]."""
        return self.objective(logits, self.labels)


class FlipSource(Protocol):
    """Ranks flips of a graph."""

    def __call__(
        self, edges: EdgeSet, forbidden: Tensor, count: int, nodes: Tensor | None = None
    ) -> RankedFlips:
        """Return about `count` flips of the graph with these edges, by descending gain.

        None of them is among the codes `forbidden` [f]; both ends of each are among `nodes`, bool
        [N], if given.
        """
        ...


def flip_source(
    aim: Aim, edges: EdgeSet, block_size: int, generator: torch.Generator
) -> FlipSource:
    """Return a source of flips among all pairs if the model has their gradients, else random pairs.

    On graphs of more than `MOST_RANKED` nodes "all pairs" are those of so many nodes, others each
    time, half of them targets, if flips are allowed everywhere: ranking the pairs of 100,000 nodes
    takes minutes.

    Args:
        block_size: number of random pairs drawn each time; the best quarter is returned.

    Raises:
        GradientError: the model has no gradient for the weights of edges.
    """
    if has_all_pair_gradients(aim, edges):
        return _all_pairs(aim, block_size, generator)
    weighted_logits(aim, edges, _random_block(edges, aim, edges.codes[:0], block_size, generator))
    return _random_pairs(aim, block_size, generator)


def has_all_pair_gradients(aim: Aim, edges: EdgeSet, edge_weight: Tensor | None = None) -> bool:
    """Whether the model gives the gradients of all pairs, with weights [2E] of edges if given."""
    index = edges.edge_index()
    result = aim.model.pair_gradients(aim.x, index, aim.targets, aim.value, edge_weight)
    return result is not None


def _all_pairs(aim: Aim, block_size: int, generator: torch.Generator) -> FlipSource:
    some_pairs = _random_pairs(aim, block_size, generator)

    def source(
        edges: EdgeSet, forbidden: Tensor, count: int, nodes: Tensor | None = None
    ) -> RankedFlips:
        result = aim.model.pair_gradients(aim.x, edges.edge_index(), aim.targets, aim.value)
        if result is None:  # layers may have closed forms on some graphs only
            return some_pairs(edges, forbidden, count, nodes)
        some = _ranked_nodes(edges, aim, nodes, generator)
        return best_flips(result, edges, aim.rows, forbidden, count, some)

    return source


def _ranked_nodes(
    edges: EdgeSet, aim: Aim, nodes: Tensor | None, generator: torch.Generator
) -> Tensor | None:
    """Return the nodes, bool [N], whose pairs are ranked, among these if given; None for all."""
    num_nodes = edges.num_nodes
    if num_nodes <= MOST_RANKED or aim.rows.numel() < num_nodes:
        return nodes
    half, chosen = MOST_RANKED // 2, torch.zeros(num_nodes, dtype=torch.bool)
    chosen[aim.targets.cpu()[_some(aim.targets.numel(), half, generator)]] = True
    chosen[_some(num_nodes, half, generator)] = True
    chosen = chosen.to(edges.codes.device)
    return chosen if nodes is None else chosen & nodes


def _random_pairs(aim: Aim, block_size: int, generator: torch.Generator) -> FlipSource:
    def source(
        edges: EdgeSet, forbidden: Tensor, count: int, nodes: Tensor | None = None
    ) -> RankedFlips:
        block = _random_block(edges, aim, forbidden, block_size, generator, nodes)
        gains, order = block_gains(aim, edges, block).sort(descending=True)
        best = min(count, -(-block.numel() // CHOSEN))
        return RankedFlips(block[order[:best]], gains[:best])

    return source


def removals_only(aim: Aim, most: int, generator: torch.Generator) -> FlipSource:
    """Return a source of removals, each time among `most` random edges at `aim.rows`."""

    def source(
        edges: EdgeSet, forbidden: Tensor, count: int, nodes: Tensor | None = None
    ) -> RankedFlips:
        present = among(edges, _edges_at(edges, aim.rows), nodes)
        chosen = _some(present.numel(), max(most, count), generator).to(present.device)
        block = present[chosen].sort().values
        block = block[~torch.isin(block, forbidden)]
        gains, order = block_gains(aim, edges, block).sort(descending=True)
        return RankedFlips(block[order[:count]], gains[:count])

    return source


def block_gains(aim: Aim, edges: EdgeSet, block: Tensor) -> Tensor:
    """Return the first-order gains [m] of flipping the pairs with codes `block` [m]."""
    logits_of = weighted_logits(aim, edges, block)
    unflipped = torch.zeros_like(block, dtype=aim.x.dtype)
    return gains_of_flips(
        lambda weights: aim.value(logits_of(weights)), edges.has(block), unflipped
    )


def weighted_logits(aim: Aim, edges: EdgeSet, block: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the model's map from weights of the pairs `block` [m] to logits of the targets.

    Raises:
        GradientError: the model has none.
    """
    result = aim.model.with_pairs(aim.x, edges.edge_index(), edges.ends(block), aim.targets)
    if result is None:
        raise GradientError(NO_GRADIENT)
    return result


def among(edges: EdgeSet, codes: Tensor, nodes: Tensor | None) -> Tensor:
    """Return the codes [m] of pairs whose ends are both among nodes, bool [N], if given."""
    return codes if nodes is None else codes[nodes[edges.ends(codes)].all(0)]


def _random_block(
    edges: EdgeSet,
    aim: Aim,
    forbidden: Tensor,
    size: int,
    generator: torch.Generator,
    nodes: Tensor | None = None,
) -> Tensor:
    """Return codes of distinct random pairs with an end in `aim.rows`, a fourth of them edges."""
    present = among(edges, _edges_at(edges, aim.rows), nodes)
    rows = aim.rows if nodes is None else aim.rows[nodes[aim.rows]]
    others = torch.arange(edges.num_nodes) if nodes is None else nodes.nonzero().squeeze(1)
    chosen = present[_some(present.numel(), size // 4, generator).to(present.device)]
    first = rows[_draws(rows.numel(), size, generator).to(rows.device)]
    second = others[_draws(others.numel(), first.numel(), generator).to(others.device)]
    second = second.to(first.device)
    apart = first != second
    drawn = edges.encode(torch.stack([first, second])[:, apart])
    codes: Tensor = torch.unique(torch.cat([chosen, drawn[: size - chosen.numel()]]))
    return codes[~torch.isin(codes, forbidden)]


def _edges_at(edges: EdgeSet, rows: Tensor) -> Tensor:
    """Return the codes of the edges with an end among the rows."""
    is_row = torch.zeros(edges.num_nodes, dtype=torch.bool, device=edges.codes.device)
    is_row[rows] = True
    return edges.codes[is_row[edges.ends(edges.codes)].any(0)]


def _some(count: int, most: int, generator: torch.Generator) -> Tensor:
    return torch.randperm(count, generator=generator)[:most]


def _draws(end: int, count: int, generator: torch.Generator) -> Tensor:
    if not end:
        return torch.empty(0, dtype=torch.int64)
    return torch.randint(end, (count,), generator=generator)
