"""Every flip of one pair of nodes: under which does a target lose its class?

All pairs are tried of which an end is near enough to a target; the others reach none. A target is
asked for no more once a flip is found under which it is clearly lost: likely ones come first.

Answers are float32. Where no flip is clear, those with a margin within `ROUNDING` of the boundary
are computed again, by a plain call of the model and of its copy in float64. A target falls if it is
lost in both; it keeps its class if it is right in both under every such pair, by more than float64
can err; else it is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from time import monotonic
from typing import Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import EdgeSet
from grb_check.attacks.objectives import margins_of
from grb_check.attacks.protocol import DifferentiableModel, FlipSets, FlipTrials

ROUNDING: Final = 1e-3  # of the largest logit: ten times the error that a trial lets pass
EXACT: Final = 1e-9  # of the largest logit, in float64
PAIRS: Final = 2**13  # at a time
LIKELY: Final = 8  # nodes of each class that every target is linked with first
CLOSE: Final = 16  # pairs near the boundary that are computed again for a target
SHRUNK: Final = 0.75  # share of the targets left at which the answers are asked for those alone


@dataclass(frozen=True, eq=False)
class SingleFlips:
    """What single flips do to targets.

    Attributes:
        pairs: int64 [2, t], first < second, a flip under which each target is lost; -1 for none.
        undecided: bool [t].
        tried: number of flips that were computed.
    """

    pairs: Tensor
    undecided: Tensor
    tried: int


@dataclass(frozen=True, eq=False)
class FlipQuestion:
    """A model, and the targets whose classes flips may change.

    Attributes:
        x: float32 [N, d].
        edges: of the clean graph.
        targets: int64 [t], distinct, all right on this graph.
        labels: int64 [t], their classes.
        model: that is asked, in float32.
        double: its copy in float64; None if there is none.
        answers: from targets int64 [k] to their `FlipTrials`.
        near: bool [N]: a pair without such a node changes no target.
        likely: int64 [2, m], first < second, pairs that are tried before all others.
        together: number of pairs that are tried at a time.
    """

    x: Tensor
    edges: EdgeSet
    targets: Tensor
    labels: Tensor
    model: DifferentiableModel
    double: DifferentiableModel | None
    answers: Callable[[Tensor], FlipTrials]
    near: Tensor
    likely: Tensor
    together: int = PAIRS

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.x.shape[0]


def every_flip(question: FlipQuestion, seconds: float | None = None) -> SingleFlips:
    """Try all flips that can change a target.

    Args:
        seconds: after which all targets that are not lost are undecided; None for no end.
    """
    search = _Search(question, None if seconds is None else monotonic() + seconds)
    for pairs in chain(_likely(question), _all(question)):
        if not search.ask(pairs):
            break
    return search.result()


class _Search:
    """The highest margin of each target (above 0: lost), and the pairs too close to call.

    Margins are float32, in units of the largest logit on the clean graph, or of the target's.
    """

    def __init__(self, question: FlipQuestion, end: float | None) -> None:
        count, device = question.targets.numel(), question.x.device
        self._question, self._end = question, end
        self._at = torch.arange(count, device=device)  # targets that are asked for
        self._trials = question.answers(question.targets)
        self._scale = max(float(self._trials.logits().abs().max()), torch.finfo().tiny)
        self._highest = torch.full((count,), -torch.inf, device=device)
        self._pairs = torch.full((2, count), -1, device=device)
        self._close: list[tuple[Tensor, Tensor]] = []  # targets [k] and pairs [2, k]
        self._found = torch.zeros(count, dtype=torch.int64, device=device)  # of them, by target
        self._tried = 0
        self._complete = True

    def ask(self, pairs: Tensor) -> bool:
        """Flip each of the pairs int64 [2, m] alone; False if the time is over."""
        if self._end is not None and monotonic() > self._end:
            self._complete = False
            return False
        self._leave_out_lost()
        count = pairs.shape[1]
        if not self._at.numel() or not count:
            return True
        self._tried += count
        owner = torch.arange(count, device=pairs.device)
        changed = self._trials.tried(FlipSets(pairs, owner, count))
        target, pairs = self._at[changed.position], pairs[:, changed.owner]
        largest = changed.logits.abs().amax(1).clamp(min=self._scale)  # rounding is relative
        margins = margins_of(changed.logits, self._question.labels[target]) / largest
        self._note(target, pairs, margins)
        return True

    def _leave_out_lost(self) -> None:
        standing = self._at[self._highest[self._at] <= ROUNDING]
        if standing.numel() < SHRUNK * self._at.numel():
            self._at = standing
            if standing.numel():
                self._trials = self._question.answers(self._question.targets[standing])

    def _note(self, target: Tensor, pairs: Tensor, margins: Tensor) -> None:
        before = self._highest
        self._highest = before.scatter_reduce(0, target, margins, "amax")
        best = (margins == self._highest[target]) & (margins > before[target])
        self._pairs[:, target[best]] = pairs[:, best]
        close = (margins.abs() <= ROUNDING) & (self._highest[target] <= ROUNDING)
        close &= self._found[target] <= CLOSE  # more are of no use
        self._close.append((target[close], pairs[:, close]))
        self._found += torch.bincount(target[close], minlength=self._found.numel())

    def result(self) -> SingleFlips:
        """Decide each target."""
        lost = self._highest > ROUNDING
        pairs = torch.where(lost, self._pairs, -1)
        undecided = ~lost & torch.tensor(not self._complete, device=lost.device)
        for target in ((self._highest >= -ROUNDING) & ~lost).nonzero().squeeze(1).tolist():
            pair, is_open = self._decided(target)
            undecided[target] = pair is None and (is_open or not self._complete)
            if pair is not None:
                pairs[:, target] = pair
        return SingleFlips(pairs.cpu(), undecided.cpu(), self._tried)

    def _decided(self, target: int) -> tuple[Tensor | None, bool]:
        """Return the close pair int64 [2] under which a target is lost, or whether it may be."""
        found = torch.cat([pairs[:, at == target] for at, pairs in self._close], dim=1)
        found = torch.unique(found, dim=1)
        is_open = found.shape[1] > CLOSE
        for pair in found[:, :CLOSE].unbind(1):
            is_lost = _computed_again(self._question, target, pair)
            if is_lost:
                return pair, False
            is_open |= is_lost is None
        return None, is_open


def _computed_again(question: FlipQuestion, target: int, pair: Tensor) -> bool | None:
    """Return whether a target is lost under a flip int64 [2]; None if rounding decides that."""
    node, label = question.targets[target], question.labels[target]
    edges = question.edges.flipped(question.edges.encode(pair[:, None])).edge_index()
    with torch.no_grad():
        is_lost = bool(question.model(question.x, edges)[node].argmax() != label)
        if question.double is None:
            return None
        exact = question.double(question.x.double(), edges)[node]
    margin = float(margins_of(exact[None], label[None]))
    sure = abs(margin) > EXACT * float(exact.abs().max())
    return is_lost if sure and is_lost == (margin > 0) else None


def likely_flips(graph: Data, model: DifferentiableModel, targets: Tensor) -> Tensor:
    """Return the edges at targets [t], and links with the nodes most certainly of each class.

    Returns:
        int64 [2, m], first < second.
    """
    edges = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    edges = edges[:, torch.isin(edges, targets).any(0)]
    with torch.no_grad():
        logits = model(graph.x, graph.edge_index).log_softmax(1)
    chosen = torch.unique(logits.topk(min(LIKELY, graph.num_nodes), dim=0).indices)
    pairs = torch.cartesian_prod(targets, chosen).T.sort(dim=0).values
    return torch.cat([edges, torch.unique(pairs[:, pairs[0] < pairs[1]], dim=1)], dim=1)


def _likely(question: FlipQuestion) -> Iterator[Tensor]:
    near = question.likely[:, question.near[question.likely].any(0)]
    yield from torch.split(near, question.together, dim=1)


def _all(question: FlipQuestion) -> Iterator[Tensor]:
    """Yield all pairs with an end that is near a target."""
    nodes = torch.arange(question.num_nodes, device=question.x.device)
    near = question.near.nonzero().squeeze(1)
    rows = max(1, question.together // max(1, question.num_nodes))
    for first in torch.split(near, rows):
        one, other = first.repeat_interleave(nodes.numel()), nodes.repeat(first.numel())
        once = (other != one) & (~question.near[other] | (one < other))
        yield torch.stack([one[once], other[once]]).sort(dim=0).values
