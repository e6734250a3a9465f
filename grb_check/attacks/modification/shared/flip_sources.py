"""Sources of candidate flips: a model's gradient for all pairs, or for random ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import torch
from torch import Tensor

from grb_check.attacks.modification.shared.best_flips import RankedFlips, best_flips
from grb_check.attacks.modification.shared.edge_set import EdgeSet
from grb_check.attacks.modification.shared.flip_weights import gains_of_flips
from grb_check.attacks.objectives import Objective
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.errors import GradientError

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
    """Return codes of distinct random pairs with an end in `aim.rows`, a fourth of them edges.

    Of so few targets that all pairs at them are at most half of the block, these are among it:
    most flips elsewhere matter less to them.
    """
    present = among(edges, _edges_at(edges, aim.rows), nodes)
    rows = aim.rows if nodes is None else aim.rows[nodes[aim.rows]]
    others = torch.arange(edges.num_nodes) if nodes is None else nodes.nonzero().squeeze(1)
    chosen = present[_some(present.numel(), size // 4, generator).to(present.device)]
    first = rows[_draws(rows.numel(), size, generator).to(rows.device)]
    second = others[_draws(others.numel(), first.numel(), generator).to(others.device)]
    ends = torch.stack([first, second.to(first.device)])
    targets = aim.targets[torch.isin(aim.targets, rows)]
    if targets.numel() * others.numel() <= size // 2:
        ends = torch.cat([torch.cartesian_prod(targets, others.to(targets.device)).T, ends], dim=1)
    drawn = edges.encode(ends[:, ends[0] != ends[1]])
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
