"""SGA: gradient flips in the subgraph around each target, along a linear surrogate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import edge_set
from grb_check.attacks.modification.shared.gang_room import GangRoom
from grb_check.attacks.modification.shared.linear_surrogate import (
    LinearSurrogate,
    fitted,
    on_edges,
)
from grb_check.attacks.modification.shared.removable import (
    Neighbours,
    neighbours_in,
    on_cpu,
    shortfall,
)
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import MODIFICATION, Scenario
from grb_check.attacks.setting_checks import check_positive
from grb_check.attacks.threat import (
    Knowledge,
    Perturbation,
    Threat,
    apply,
    changes_used,
    joined,
)

# From pairs int64 [2, m], and which of them are flipped, to which may be flipped, bool [m].
Allowed: TypeAlias = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class ModificationSga:
    r"""Flip the pairs of largest gradient in a small subgraph around each target.

    `Adversarial Attack on Large Scale Graph <https://arxiv.org/abs/2009.03488>`_ (Li et al. 2020):
    the gradient of an SGC surrogate, :math:`Z = S^2 X W`, is needed only within two hops of the
    target v, and for links to nodes of the class c that is its most probable wrong one. Of these
    nodes, as many as there is budget are kept: those with the largest gradient of the loss

    .. math:: L = \ell(Z_v / \epsilon, y) - \ell(Z_v / \epsilon, c)

    with the cross-entropy :math:`\ell`, whose temperature :math:`\epsilon` calibrates gradients
    that vanish where the surrogate is sure (sections 4.2 to 4.4). Then the pair of the subgraph
    with the largest gain is flipped, one at a time. Degrees and messages of nodes outside are those
    of the clean graph, so that the gradient in the subgraph is exact.

    Differences from the paper (our choices): the surrogate is fitted to the labels that the attack
    is shown (`linear_surrogate`); the attack stops when no flip has a gain. The members of a gang
    are attacked one after another, each on the graph with the flips for those before it, by pairs
    that have a member as an end.

    Args:
        temperature: epsilon. (the authors' code: 5)
        isolate: whether a node may lose its last edge. (our choice: False, as in Nettack)
    """

    temperature: float = 5.0
    isolate: bool = False

    name: ClassVar[str] = "sga"
    scenario: ClassVar[Scenario] = MODIFICATION
    knowledge: ClassVar[Knowledge] = "black-box"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_positive(self, "temperature")

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Flip edges around each target; the model is known through its labels only."""
        graph = on_cpu(graph)
        if threat.ends is not None:
            return self._together(graph, threat, generator)
        budgets = threat.budgets_of_targets().tolist()
        if not sum(budgets):
            return Perturbation()
        surrogate, neighbours = fitted(graph, generator), neighbours_in(graph)
        parts = [
            self._flips(target, budget, graph.y, surrogate, neighbours, _any_pair)
            for target, budget in zip(threat.targets.tolist(), budgets, strict=True)
        ]
        used = sum(part.added_edges.shape[1] + part.removed_edges.shape[1] for part in parts)
        reason = "no other flip raises the objective"
        return joined(parts, shortfall(used, sum(budgets), reason))

    def _together(self, graph: Data, threat: Threat, generator: torch.Generator) -> Perturbation:
        """Attack the members of a gang one after another, on one graph."""
        room = GangRoom.of(graph, threat)
        surrogate, y, changed = fitted(graph, generator), graph.y, graph
        for member in threat.targets.tolist():
            budget = int(room.left[member])
            now = on_edges(surrogate, changed), neighbours_in(changed)
            part = self._flips(member, budget, y, *now, room.allows)
            room.spend(part)
            changed = apply(changed, part)
        result = edge_set(graph).perturbation(room.flips)
        used = changes_used(threat, result)
        reason = "no other flip that the members' budgets allow raises the objective"
        return replace(result, notes=shortfall(used, threat.edge_budget, reason))

    def _flips(
        self,
        target: int,
        budget: int,
        y: Tensor,
        surrogate: LinearSurrogate,
        near: Neighbours,
        allowed: Allowed,
    ) -> Perturbation:
        if surrogate.logits.shape[1] < 2 or not budget:
            return Perturbation()
        label = int(y[target])
        others = surrogate.logits[target].clone()
        others[label] = -torch.inf
        wrong = int(others.argmax())

        def loss(logits: Tensor) -> Tensor:
            both = torch.tensor([label, wrong])
            label_loss, other = F.cross_entropy(
                (logits / self.temperature).expand(2, -1), both, reduction="none"
            )
            difference: Tensor = label_loss - other
            return difference

        ego = _ego(target, near)
        linkable = y == wrong
        linkable[near.of(target)] = linkable[target] = False
        candidates = linkable.nonzero().squeeze(1)
        widest = _Subgraph(target, ego, candidates, surrogate, near)
        open_links = allowed(widest.pairs, widest.flipped)[widest.link_start :]
        gains = widest.gains(loss)[widest.link_start :][open_links]
        candidates = candidates[open_links]
        best = candidates[gains.topk(min(budget, candidates.numel())).indices]
        part = _Subgraph(target, ego, best, surrogate, near)
        for _ in range(budget):
            may_flip = part.may_flip(isolate=self.isolate) & allowed(part.pairs, part.flipped)
            gains = part.gains(loss).masked_fill(~may_flip, -torch.inf)
            if not gains.numel() or not float(gains.max()) > 0:
                break
            part.flip(int(gains.argmax()))
        return part.perturbation()


def _any_pair(pairs: Tensor, flipped: Tensor) -> Tensor:
    return torch.ones_like(flipped)


def _ego(target: int, neighbours: Neighbours) -> Tensor:
    """Return the nodes within two hops of the target, int64 [m], ascending."""
    near = neighbours.of(target)
    target_node = near.new_tensor([target])
    nodes: Tensor = torch.unique(torch.cat([target_node, near, neighbours.of_all(near)[0]]))
    return nodes


class _Subgraph:
    """The weights of edges around a target and of its links to candidates, and the surrogate there.

    Args:
        target: v.
        ego: int64 [e], nodes within two hops of v.
        candidates: int64 [k], nodes that are not neighbours of v.
        surrogate: on the clean graph.
        neighbours: in the clean graph.

    Attributes:
        flipped: bool [m], pairs that are.
        link_start: place of the first candidate's pair; pairs before it are the edges among `ego`
            and candidates.
    """

    def __init__(
        self,
        target: int,
        ego: Tensor,
        candidates: Tensor,
        surrogate: LinearSurrogate,
        neighbours: Neighbours,
    ) -> None:
        nodes = torch.unique(torch.cat([ego, candidates]))
        around, counts = neighbours.of_all(nodes)
        position = torch.searchsorted(nodes, around).clamp(max=nodes.numel() - 1)
        inside = nodes[position] == around
        row = torch.arange(nodes.numel(), device=nodes.device).repeat_interleave(counts)[inside]
        column = position[inside]
        upper = row < column
        edges = torch.stack([row[upper], column[upper]])
        self._target = int(torch.searchsorted(nodes, target))
        ends = torch.searchsorted(nodes, candidates)
        links = torch.stack([ends.clamp(max=self._target), ends.clamp(min=self._target)])
        self.link_start = edges.shape[1]
        self._nodes, self._pairs = nodes, torch.cat([edges, links], dim=1)
        self._is_edge = torch.arange(self._pairs.shape[1], device=nodes.device) < self.link_start
        self.flipped = torch.zeros_like(self._is_edge)
        self._scores = surrogate.scores[nodes]
        # What the other nodes and edges contribute, which do not change.
        self._degrees = surrogate.degrees[nodes]
        messages = self._scores * self._degrees.rsqrt()[:, None]
        inner = messages + _sent(messages, edges, torch.ones_like(edges[0], dtype=messages.dtype))
        self._received = surrogate.received[nodes] - inner
        self._outside = self._degrees - torch.bincount(edges.flatten(), minlength=nodes.numel())

    @property
    def pairs(self) -> Tensor:
        """Node ids of all pairs, int64 [2, m], first < second."""
        pairs: Tensor = self._nodes[self._pairs]
        return pairs

    def gains(self, loss: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the first-order gain of the loss by the flip of each pair, [m]."""
        weights = (self._is_edge != self.flipped).to(self._scores).requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(loss(self._logits(weights)), weights)
        return torch.where(weights.detach() > 0, -gradient, gradient)

    def _logits(self, weights: Tensor) -> Tensor:
        """Return the surrogate's logits of the target [c] for weights of the pairs [m]."""
        degrees = self._outside.index_add(0, self._pairs.flatten(), weights.repeat(2))
        messages = self._scores * degrees.rsqrt()[:, None]
        received = self._received + messages + _sent(messages, self._pairs, weights)
        shares = received / degrees[:, None]
        at_target = (self._pairs == self._target).any(0).nonzero().squeeze(1)
        others = self._pairs[:, at_target].sum(0) - self._target
        total = shares[self._target] + weights[at_target] @ shares[others]
        return degrees[self._target].rsqrt() * total

    def may_flip(self, *, isolate: bool) -> Tensor:
        """Return which pairs may be flipped, bool [m]; each once."""
        if isolate:
            return ~self.flipped
        weights = (self._is_edge != self.flipped).to(self._outside)
        degrees = self._outside.index_add(0, self._pairs.flatten(), weights.repeat(2))
        last = (degrees < 3)[self._pairs].any(0)  # degrees count a loop
        return ~self.flipped & ~(self._is_edge & last)

    def flip(self, pair: int) -> None:
        """Flip the pair at this place."""
        self.flipped[pair] = True

    def perturbation(self) -> Perturbation:
        """Return the flips that were made."""
        pairs = self.pairs
        added, removed = self.flipped & ~self._is_edge, self.flipped & self._is_edge
        return Perturbation(
            added_edges=pairs[:, added].cpu(), removed_edges=pairs[:, removed].cpu()
        )


def _sent(messages: Tensor, pairs: Tensor, weights: Tensor) -> Tensor:
    """Return the sums of the messages [n, c] that pairs [2, m] of these weights carry."""
    both = torch.cat([pairs, pairs.flip(0)], dim=1)
    carried = messages[both[1]] * weights.repeat(2)[:, None]
    return torch.zeros_like(messages).index_add(0, both[0], carried)
