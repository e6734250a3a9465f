"""`FlipTrials` by forward passes, for models of which nothing is known but that they answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.edges.edge_set import EdgeSet
from grb_check.attacks.flip_trials import Changed, FlipTrials, Moves, joined, parts_of
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.errors import ModelError
from grb_check.user_code.randomness import isolated_randomness

UNION_NODES: Final = 4096  # in a union of copies; above, a forward pass costs more than its call
SAME: Final = 1e-5  # relative error that rounding may cause in the logits

# Nodes int64 [r] whose features the rows have, and edges int64 [2, e] among these rows, to logits
# float [r, c].
Forward = Callable[[Tensor, Tensor], Tensor]


class ForwardTrials:
    """`FlipTrials` with a forward pass on the whole graph for each candidate.

    On small graphs several candidates are answered in one call, on copies of the graph side by
    side, if a trial shows that the model does not mix them.

    Args:
        forward: of the model.
        edge_index: int64 [2, 2E], both directions of each edge.
        num_nodes: N.
        targets: int64 [t], distinct.
        seed: of the model's own randomness, the same in every call.
    """

    def __init__(
        self, forward: Forward, edge_index: Tensor, num_nodes: int, targets: Tensor, seed: int = 0
    ) -> None:
        self._forward, self._targets, self._seed = forward, targets, seed
        codes = (edge_index[0] * num_nodes + edge_index[1])[edge_index[0] < edge_index[1]]
        self._edges = EdgeSet(codes.sort().values, num_nodes)
        self._passes = 0
        self._logits = self._answers([self._edges])[0]
        self._copies = self._most_copies()

    @property
    def work(self) -> float:
        """Forward passes so far."""
        return self._passes

    def logits(self) -> Tensor:
        """Return float [t, c] in the current graph."""
        return self._logits

    def tried(self, moves: Moves) -> Changed:
        """Return the logits of all targets under each candidate."""
        parts = list(parts_of(moves, self._copies))
        return joined([self._of(part) for part in parts], [part.count for part in parts])

    def move(self, pairs: Tensor) -> None:
        """Flip pairs int64 [2, m] in the current graph."""
        self._edges = self._edges.flipped(self._edges.encode(pairs))
        self._logits = self._answers([self._edges])[0]

    def _of(self, moves: Moves) -> Changed:
        codes = self._edges.encode(moves.pairs)
        graphs = [self._edges.flipped(codes[moves.owner == each]) for each in range(moves.count)]
        logits = self._answers(graphs)
        places = torch.arange(self._targets.numel(), device=codes.device)
        return Changed(
            places.new_tensor(range(moves.count)).repeat_interleave(places.numel()),
            places.repeat(moves.count),
            logits.flatten(0, 1),
        )

    def _answers(self, graphs: list[EdgeSet]) -> Tensor:
        """Return logits float [k, t, c] of the targets in each graph."""
        num_nodes = self._edges.num_nodes
        edges = [each.edge_index() + k * num_nodes for k, each in enumerate(graphs)]
        nodes = torch.arange(num_nodes, device=self._targets.device).repeat(len(graphs))
        self._passes += len(graphs)
        with torch.no_grad(), isolated_randomness(self._seed):
            logits = self._forward(nodes, torch.cat(edges, dim=1))
        return logits.reshape(len(graphs), num_nodes, -1)[:, self._targets]

    def _most_copies(self) -> int:
        """Return the number of graphs in a union; 1 if the model mixes them."""
        most = UNION_NODES // max(1, self._edges.num_nodes)
        if most < 2:
            return 1
        second = torch.arange(1, self._edges.num_nodes, device=self._targets.device)
        codes = self._edges.encode(torch.stack([second // 3, second]))
        # The third has another number of edges than the first, whatever the second has.
        graphs = [self._edges, self._edges.flipped(codes), self._edges.flipped(codes[:1])]
        try:
            together = self._answers(graphs)
            others = [self._answers([each]) for each in graphs[1:]]
        except (ModelError, RuntimeError):
            return 1
        single = torch.cat([self._logits[None], *others])
        allowed = SAME * float(single.abs().max()) if single.numel() else 0.0
        same = not single.numel() or float((together - single).abs().max()) <= allowed
        return most if same else 1


def flip_trials(
    model: DifferentiableModel, x: Tensor, edge_index: Tensor, targets: Tensor, seed: int = 0
) -> FlipTrials:
    """Return the targets' logits under candidates for flips, in the fastest way a model has.

    Args:
        model: its `with_flips` is used if it has one, such as a victim's.
        x: float [N, d].
        edge_index: int64 [2, 2E], both directions of each edge.
        targets: int64 [t], distinct.
        seed: of the model's own randomness.
    """
    own: Callable[..., FlipTrials] | None = getattr(model, "with_flips", None)
    if own is not None:
        return own(x, edge_index, targets, seed)

    def forward(nodes: Tensor, edges: Tensor) -> Tensor:
        return model(x.index_select(0, nodes), edges)

    return ForwardTrials(forward, edge_index, x.shape[0], targets, seed)
