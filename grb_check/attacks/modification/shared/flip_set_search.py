"""Asking a model for many sets of flips: under which does a target lose its class?

A target is asked for no more once a set is found under which it is clearly lost.

Answers are float32. Where no set is clear, those with a margin within the answers' rounding are
computed again, by a plain call of the model and of its copy in float64. A target falls if it is
lost in both; it keeps its class if it is right in both under every such set, by more than float64
can err; else it is undecided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.modification.shared.edge_set import EdgeSet
from grb_check.attacks.objectives import margins_of
from grb_check.attacks.protocol import DifferentiableModel, ExactTrials, FlipSets
from grb_check.attacks.verdicts import Tell

EXACT: Final = 1e-9  # of the largest logit, in float64
SETS: Final = 2**13  # at a time
CLOSE: Final = 16  # sets near the boundary that are computed again for a target
FIRST: Final = 64  # sets at first where the time is limited
PIECE: Final = 0.01  # share of the time that sets tried together should take
SHRUNK: Final = 0.75  # share of the targets left at which the answers are asked for those alone


@dataclass(frozen=True, eq=False)
class FlipQuestion:
    """A model, and the targets whose classes flips may change.

    Attributes:
        x: float32 [N, d].
        edges: of the clean graph.
        targets: int64 [t], distinct, all right on this graph.
        labels: int64 [t], their classes.
        budgets: int64 [t], the flips allowed at each, at least 1.
        model: that is asked, in float32.
        double: its copy in float64; None if there is none.
        answers: from targets int64 [k] to the model's answers at these.
        likely: int64 [2, m], first < second, pairs that are worth a try before others.
        tell: is told the share of the work that is done.
        together: number of sets that are tried at a time.
    """

    x: Tensor
    edges: EdgeSet
    targets: Tensor
    labels: Tensor
    budgets: Tensor
    model: DifferentiableModel
    double: DifferentiableModel | None
    answers: Callable[[Tensor], ExactTrials]
    likely: Tensor
    tell: Tell
    together: int = SETS

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.x.shape[0]


@dataclass(frozen=True, eq=False)
class FoundFlips:
    """What sets of flips do to targets.

    Attributes:
        sets: for each target the pairs int64 [2, k], first < second, that are flipped where it is
            lost; None for no such set.
        undecided: bool [t].
        too_many: bool [t], those of them that have more sets than are tried.
        tried: number of sets that were computed.
    """

    sets: tuple[Tensor | None, ...]
    undecided: Tensor
    too_many: Tensor
    tried: int

    @property
    def sizes(self) -> Tensor:
        """Number of flips for each target, int64 [t]; 0 without a set."""
        return torch.tensor([0 if some is None else some.shape[1] for some in self.sets])


class FlipSetSearch:
    """The highest margin of each target (above 0: lost), and the sets too close to call.

    Margins are float32, in units of the largest logit on the clean graph, or of the target's.

    Args:
        question: what is asked.
        seconds: after which targets that are neither lost nor `finished` are undecided; None for no
            end.
    """

    def __init__(self, question: FlipQuestion, seconds: float | None = None) -> None:
        count, device = question.targets.numel(), question.x.device
        self._question = question
        self._seconds, self._start = seconds, monotonic()
        self._at = torch.arange(count, device=device)  # targets that are asked for
        self._known = question.answers(question.targets)
        self._rounding = self._known.rounding
        self._scale = max(float(self._known.trials.logits().abs().max()), torch.finfo().tiny)
        self._highest = torch.full((count,), -torch.inf, device=device)
        self._sets: list[Tensor | None] = [None] * count
        self._close: list[tuple[Tensor, Tensor]] = []  # targets [q] and sets [2, q, k]
        self._found = torch.zeros(count, dtype=torch.int64, device=device)  # of them, same or not
        self._open = torch.zeros(count, dtype=torch.bool, device=device)
        self._too_many = self._open.clone()
        self._finished = self._open.clone()
        self._tried = 0
        self._at_once = question.together if seconds is None else min(FIRST, question.together)

    @property
    def _spent(self) -> float:
        """The share of the time that is over."""
        return 0.0 if self._seconds is None else (monotonic() - self._start) / self._seconds

    def tell(self, share: float) -> None:
        """Tell that so much of the work is done, or of the time if that ends earlier."""
        self._question.tell(min(max(share, self._spent), 1.0))

    @property
    def standing(self) -> Tensor:
        """Positions int64 [s] of the targets that are not clearly lost."""
        return (self._highest <= self._rounding).nonzero().squeeze(1)

    def leave_open(self, positions: Tensor) -> None:
        """Note that targets at these positions int64 [k] have more sets than are tried."""
        self._open[positions] = True
        self._too_many[positions] = True

    def finish(self, positions: Tensor) -> None:
        """Note that targets at these positions int64 [k] were asked for all of their sets."""
        self._finished[positions] = True

    @property
    def near(self) -> Tensor:
        """Nodes bool [N]: a pair without such a node changes no target that is asked for."""
        return self._known.near

    def only(self, positions: Tensor) -> None:
        """Ask for the targets at these positions int64 [k] alone from now on."""
        self._at = positions
        if positions.numel():
            self._known = self._question.answers(self._question.targets[positions])

    def ask(self, sets: Tensor) -> bool:
        """Flip each of the sets int64 [2, m, k] alone; False if the time is over."""
        spent = self._spent
        while sets.shape[1]:
            if spent > 1:
                self._open |= ~self._finished
                return False
            self._try(sets[:, : self._at_once])
            sets = sets[:, self._at_once :]
            before, spent = spent, self._spent
            growth = PIECE / max(spent - before, 0.5 * PIECE)  # at most twice as many
            self._at_once = min(max(1, int(growth * self._at_once)), self._question.together)
        return True

    def _try(self, sets: Tensor) -> None:
        """Flip each of the sets int64 [2, m, k] alone."""
        lost = self._highest[self._at] > self._rounding
        if int((~lost).sum()) < SHRUNK * self._at.numel():
            self.only(self._at[~lost])
        _, count, size = sets.shape
        if not self._at.numel():
            return
        self._tried += count
        owner = torch.arange(count, device=sets.device).repeat_interleave(size)
        changed = self._known.trials.tried(FlipSets(sets.flatten(1), owner, count))
        target = self._at[changed.position]
        largest = changed.logits.abs().amax(1).clamp(min=self._scale)  # rounding is relative
        margins = margins_of(changed.logits, self._question.labels[target]) / largest
        self._note(target, sets[:, changed.owner], margins)

    def _note(self, target: Tensor, sets: Tensor, margins: Tensor) -> None:
        before = self._highest
        self._highest = before.scatter_reduce(0, target, margins, "amax")
        best = (margins == self._highest[target]) & (margins > before[target])
        best &= margins > self._rounding
        for index in best.nonzero().squeeze(1).tolist():
            self._sets[int(target[index])] = sets[:, index]
        close = (margins.abs() <= self._rounding) & (self._highest[target] <= self._rounding)
        close &= self._found[target] <= CLOSE  # more are of no use
        if close.any():
            self._close.append((target[close], sets[:, close]))
        self._found += torch.bincount(target[close], minlength=self._found.numel())

    def settle(self) -> None:
        """Decide the targets of which some set is too close to call."""
        close = (self._highest >= -self._rounding) & (self._highest <= self._rounding)
        for target in close.nonzero().squeeze(1).tolist():
            self._sets[target], is_open = self._decided(target)
            self._open[target] |= is_open
            self._highest[target] = -torch.inf if self._sets[target] is None else torch.inf
        self._close.clear()
        self._found.zero_()

    def result(self) -> FoundFlips:
        """Return what is known of each target."""
        self.settle()
        on_cpu = tuple(None if some is None else some.cpu() for some in self._sets)
        undecided = torch.tensor([some is None for some in on_cpu], dtype=torch.bool)
        undecided &= self._open.cpu()
        return FoundFlips(on_cpu, undecided, undecided & self._too_many.cpu(), self._tried)

    def _decided(self, target: int) -> tuple[Tensor | None, bool]:
        """Return the close set int64 [2, k] under which a target is lost, or whether it may be."""
        found = [sets[:, at == target].unbind(1) for at, sets in self._close]
        distinct = {tuple(some.flatten().tolist()): some for part in found for some in part}
        is_open = bool(self._found[target] > CLOSE)  # later ones are not among them
        for some in list(distinct.values())[:CLOSE]:
            is_lost = _computed_again(self._question, target, some)
            if is_lost:
                return some, False
            is_open |= is_lost is None
        return None, is_open


def _computed_again(question: FlipQuestion, target: int, pairs: Tensor) -> bool | None:
    """Return whether a target is lost if pairs int64 [2, k] flip; None if rounding decides that."""
    node, label = question.targets[target], question.labels[target]
    edges = question.edges.flipped(question.edges.encode(pairs)).edge_index()
    with torch.no_grad():
        is_lost = bool(question.model(question.x, edges)[node].argmax() != label)
        if question.double is None:
            return None
        exact = question.double(question.x.double(), edges)[node]
    margin = float(margins_of(exact[None], label[None]))
    sure = abs(margin) > EXACT * float(exact.abs().max())
    return is_lost if sure and is_lost == (margin > 0) else None
