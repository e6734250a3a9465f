r"""Search for flips by a model's answers alone.

Models of which only the rows that flips reach are computed answer single flips for a fraction of a
forward pass, if these rows are few: what each does to accuracy is then known exactly. All others,
and large graphs, are searched with many flips in each pass (`flip_sweeps`).

Of the former the state is a set of flips. Each round asks for the effect of single changes on the
current graph: flips that could be added, most of them at targets that are still right and close to
the decision boundary; flips that could be taken back; and flips of which one end is replaced. The
best ones, an addition with the cheapest flip to take back once the budget is spent, are then tried
together: all of them, half, a quarter, ...; the strongest of these is made if it is an improvement.
A round with n candidates of each kind thus weighs n^2 exchanges besides. Replacing an end finds
what they cannot: an addition that only helps if a flip at the same target is taken back. These are
tried without the others, too.

The objective is a smooth count of right targets over their margins m (above 0: lost),

.. math:: E = \sum_t \sigma(-m_t / \tau),

with :math:`\tau` falling to a tenth during the search: at first flips that bring many targets
closer to the boundary count, in the end only whether targets are right. The flips with the fewest
right targets met on the way are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.modification.shared.edge_set import EdgeSet
from grb_check.attacks.modification.shared.flip_sources import Aim
from grb_check.attacks.modification.shared.flip_sweeps import Question, sweep
from grb_check.attacks.modification.shared.greedy import SearchSpace
from grb_check.attacks.modification.shared.removable import within_capacity
from grb_check.attacks.objectives import margins_of
from grb_check.attacks.protocol import FlipSets, FlipTrials, parts_of
from grb_check.errors import UnknownReachError

VERSION: Final = 3  # raised whenever the search may find something else
LARGE: Final = 50_000  # nodes and directed edges from which on flips are swept, with less work ...
LEAST: Final = 500  # ... but that many forward passes
MOST_COST: Final = 0.15  # of a single flip, in forward passes; above, flips are swept
PROBES: Final = 16  # flips by which that is measured
MOST_LOGITS: Final = 2**21  # targets times candidates at a time
FILLED: Final = 20  # steps that spend the budget at first
# All our choices, on Cora and CiteSeer:
SMOOTH: Final = 0.5  # tau at first, as a part of the median margin of the targets that are right
SHARP: Final = 0.05  # ... and in the end
IDLE: Final = 20  # rounds in which no candidate has an effect, after which the search ends
ROUNDS: Final = 400  # that the work is meant for
CANDIDATES: Final = (8, 256)  # least and most of one kind in a round
OF_BUDGET: Final = 50  # but at least one for that many flips of the budget
AT_TARGETS: Final = 0.5  # share of additions whose other end is such a target as well
OF_CLASS: Final = 0.25  # share whose other end is a node of the target's second class
REMOVALS: Final = 0.1  # share of candidates that are edges


def search_by_answers(
    question: Question, flips: Tensor, forwards: float, generator: torch.Generator
) -> Tensor:
    """Return the strongest flips found from given ones on: codes int64 [m], m at most the budget.

    Args:
        flips: distinct codes to begin with, at most the budget; the result is no weaker.
        forwards: work, in forward passes on the whole graph, see `FlipTrials.work`.
        generator: the source of randomness.
    """
    trials = _trials(question, flips)
    if trials is None:
        return sweep(question, flips, max(1, int(forwards) // 2), generator)
    search = _Search(question, trials, flips, generator)
    end = trials.work + forwards
    idle = 0
    try:
        search.fill(end)
        while trials.work < end and search.right and idle < IDLE:
            matters = search.improve(trials.work / end, forwards)
            idle = 0 if matters else idle + 1
    except UnknownReachError:  # such as a model that does something else on a changed graph
        best = _fewest_right(question, search.best, flips)
        return sweep(question, best, max(1, int(end - trials.work) // 2), generator)
    return _fewest_right(question, search.best, flips)


def _fewest_right(question: Question, *found: Tensor) -> Tensor:
    return min(map(question.answer, found), key=lambda answer: answer.right).flips


def _trials(question: Question, flips: Tensor) -> FlipTrials | None:
    """Return the answers to single flips, if they cost much less than a forward pass each."""
    with_flips: Callable[..., FlipTrials | None]
    with_flips = getattr(question.model, "with_flips", lambda *_: None)
    if _size(question.clean) > LARGE:
        return None
    edges = question.clean.flipped(flips).edge_index()
    trials = with_flips(question.x, edges, question.targets)
    if trials is None:
        return None
    try:
        return trials if _cost(question, trials) < MOST_COST else None
    except UnknownReachError:
        return None


def _cost(question: Question, trials: FlipTrials) -> float:
    """Return the work of a flip, in forward passes: the mean of some at targets."""
    nodes, targets = question.clean.num_nodes, question.targets.sort().values
    first = targets[torch.linspace(0, targets.numel() - 1, PROBES).long()]
    pairs = torch.stack([first, (first + nodes // 2) % nodes]).sort(dim=0).values
    before = trials.work
    trials.tried(FlipSets(pairs, torch.arange(PROBES, device=pairs.device), PROBES))
    return (trials.work - before) / PROBES


def polished(
    flips: Tensor,
    aim: Aim,
    space: SearchSpace,
    budget: int,
    forwards: int,
    generator: torch.Generator,
) -> Tensor:
    """Return the flips of an attack by gradients after a search from them on, if it has work."""
    if not forwards:
        return flips
    question = Question(
        aim.model,
        aim.x,
        space.clean,
        aim.targets,
        aim.labels,
        budget,
        isolate=space.isolate,
        room=space.room,
        ends=aim.rows,
    )
    return search_by_answers(question, flips, forwards_on(space.clean, forwards), generator)


def forwards_on(edges: EdgeSet, forwards: int) -> float:
    """Return the work on a graph: that many forward passes, and fewer if it is large."""
    return max(forwards * min(1.0, LARGE / _size(edges)), min(forwards, LEAST))


def _size(edges: EdgeSet) -> int:
    """Return the number of nodes and directed edges."""
    return edges.num_nodes + 2 * edges.codes.numel()


def _sizes(steps: Sequence[Tensor]) -> list[int]:
    """Return how many of the first steps are tried: all, half, a quarter, ..."""
    return sorted({-(-len(steps) // 2**power) for power in range(10)} - {0})


class _Search:
    """The current flips, and the best so far."""

    def __init__(
        self, question: Question, trials: FlipTrials, flips: Tensor, generator: torch.Generator
    ) -> None:
        self._question, self._clean, self._generator = question, question.clean, generator
        self.trials, self._flips = trials, flips
        self._margins = self._now()
        self.right = self._count()
        self.best = flips
        clean = question.logits(flips[:0])
        self._classes = clean.argmax(1)
        self._scale = question.scale(margins_of(clean[question.targets], question.labels))
        self._weights = (self._clean.degrees() + 1.0).rsqrt()  # one edge more flip_sets these more
        self._cost = 0.0  # of a candidate, in forward passes

    def fill(self, end: float) -> None:
        """Spend what is left of the budget in a few steps, unless that takes too much work.

        Each step adds flips at the targets closest to the boundary, to nodes of their second class:
        a start for the price of some forward passes, also where each flip alone is worth a large
        part of one.
        """
        for step in range(FILLED):
            room = self._question.budget - self._flips.numel()
            held = (self._margins < 0).nonzero().squeeze(1)
            if self.trials.work >= end or not room or not held.numel():
                break
            order = self._margins[held].argsort(descending=True, stable=True)
            position = held[order[: -(-room // (FILLED - step))]]
            second = self._drawn(self._weights, position.numel())
            self._set_members(second, self._second_classes(position))
            codes = self._new(torch.stack([self._question.targets[position], second]))
            codes = self._within_room(codes[~self._clean.has(codes)])
            if codes.numel() and self._changes([codes], SMOOTH * self._scale)[0] < 0:
                self._make(codes)

    def improve(self, share: float, forwards: float) -> bool:
        """Make one round, with `share` of the work done; return if any candidate had an effect."""
        tau = self._scale * SMOOTH * (SHARP / SMOOTH) ** share
        room = self._question.budget - self._flips.numel()
        count = self._candidates(forwards)
        additions = self._additions(count, tau)
        some = torch.randperm(self._flips.numel(), generator=self._generator)[:count]
        returns = self._flips[some.to(self._flips.device)] if room < count else self._flips[:0]
        single = [
            codes[index : index + 1]
            for codes in (additions, returns)
            for index in range(codes.numel())
        ]
        rewired = self._rewired(count, tau)
        candidates = single + rewired
        before = self.trials.work
        changes = self._changes(candidates, tau)
        self._cost = (self.trials.work - before) / max(1, len(candidates))
        mixed = self._steps(candidates, changes, additions.numel(), returns.numel(), room)
        # What an addition and a return do together is an estimate, which can be wrong for all of
        # them where flips share a target, and hide what is exact.
        exact = self._steps(rewired, changes[len(single) :], additions=0, returns=0, room=0)
        together = [torch.cat(steps[:size]) for steps in (mixed, exact) for size in _sizes(steps)]
        if together:
            values = self._changes(together, tau)
            strongest = int(values.argmin())
            if values[strongest] < 0:
                self._make(together[strongest])
        return bool(changes.any())

    def _rewired(self, count: int, tau: float) -> list[Tensor]:
        """Return exchanges of a flip for another one at one of its ends."""
        if not self._flips.numel():
            return []
        position = torch.randint(self._flips.numel(), (count,), generator=self._generator)
        old = self._flips[position.to(self._flips.device)]
        end = torch.randint(2, (count,), generator=self._generator).to(old.device)
        first = self._clean.ends(old).gather(0, end[None])[0]
        second = self._drawn(self._weights, count)
        inner = int(AT_TARGETS * count)
        second[:inner] = self._question.targets[self._drawn(self._held(tau), inner)]
        new = self._clean.encode(torch.stack([first, second]))
        allowed = (
            (first != second)
            & self._question.at_ends(torch.stack([first, second]))
            & ~torch.isin(new, self._flips)
            & (self._question.left(self._flips)[second] > 0)
        )
        if not self._question.isolate:
            allowed &= ~torch.isin(new, self._question.last_edges(self._flips))
        return list(torch.stack([new, old], dim=1)[allowed])

    def _held(self, tau: float) -> Tensor:
        """Return weights [t] of targets: those that are still right, close to the boundary."""
        margins = self._margins
        return (margins / max(tau, 0.15 * self._scale)).exp() * (margins < 0) + 1e-9

    def _candidates(self, forwards: float) -> int:
        """Return how many candidates of a kind there are in a round."""
        least, most = CANDIDATES
        meant = forwards / (2 * ROUNDS * self._cost) if self._cost else least
        return int(max(least, min(meant, most), self._question.budget // OF_BUDGET))

    def _additions(self, count: int, tau: float) -> Tensor:
        """Return codes of about `count` flips that could be added."""
        held = self._held(tau)
        targets = self._question.targets
        position = self._drawn(held, count)
        first = targets[position]
        second = self._drawn(self._weights, count)
        inner, by_class = int(AT_TARGETS * count), int((AT_TARGETS + OF_CLASS) * count)
        second[:inner] = targets[self._drawn(held, inner)]
        self._set_members(second[inner:by_class], self._second_classes(position[inner:by_class]))
        removals = self._clean.ends(self._edges_at(first[: int(REMOVALS * count) + 1]))
        return self._new(torch.cat([torch.stack([first, second]), removals], dim=1))

    def _new(self, pairs: Tensor) -> Tensor:
        """Return the distinct codes of those pairs [2, m] that may be flipped and are not."""
        return self._question.possible(pairs, self._flips)

    def _within_room(self, codes: Tensor) -> Tensor:
        """Return the codes [m] for which the nodes have room if they are taken in this order."""
        taken = within_capacity(
            self._clean.ends(codes).cpu(), self._question.left(self._flips).cpu()
        )
        return codes[taken.to(codes.device)]

    def _set_members(self, nodes: Tensor, classes: Tensor) -> None:
        """Replace nodes [m] by random ones of these classes [m], if there are any, in place."""
        for label in torch.unique(classes).tolist():
            members = self._weights * (self._classes == label)
            if members.any():
                rows = (classes == label).nonzero().squeeze(1)
                nodes[rows] = self._drawn(members, rows.numel())

    def _second_classes(self, places: Tensor) -> Tensor:
        """Return the class of largest logit beside the label, of targets at these places."""
        logits = self.trials.logits()[places]
        labels = self._question.labels[places][:, None]
        return logits.scatter(1, labels, float("-inf")).argmax(1)

    def _edges_at(self, nodes: Tensor) -> Tensor:
        """Return codes of clean edges at nodes, one at random for each node that has any."""
        ends = self._clean.ends(self._clean.codes)
        at = torch.isin(ends, nodes).any(0).nonzero().squeeze(1)
        some = torch.randperm(at.numel(), generator=self._generator)[: nodes.numel()]
        return self._clean.codes[at[some.to(at.device)]]

    def _drawn(self, weights: Tensor, count: int) -> Tensor:
        """Return positions int64 [count], drawn with replacement."""
        if not count:
            return torch.empty(0, dtype=torch.int64, device=weights.device)
        sums = weights.double().cumsum(0)
        drawn = torch.rand(count, generator=self._generator, dtype=torch.float64).to(sums.device)
        return torch.searchsorted(sums, drawn * sums[-1], right=True).clamp(max=sums.numel() - 1)

    def _changes(self, candidates: Sequence[Tensor], tau: float) -> Tensor:
        """Return the change of the objective by each candidate, codes [m], float [k]."""
        if not candidates:
            return self._margins.new_empty(0)
        sizes = torch.tensor([candidate.numel() for candidate in candidates])
        owner = torch.repeat_interleave(sizes).to(self._flips.device)
        flip_sets = FlipSets(self._clean.ends(torch.cat(list(candidates))), owner, len(candidates))
        at_once = max(1, MOST_LOGITS // self._margins.numel())
        return torch.cat([self._gains(part, tau) for part in parts_of(flip_sets, at_once)])

    def _gains(self, flip_sets: FlipSets, tau: float) -> Tensor:
        """Return the change of the objective by each candidate, float [k]."""
        changed = self.trials.tried(flip_sets)
        new = margins_of(changed.logits, self._question.labels[changed.position])
        old = self._margins[changed.position]
        gains = torch.sigmoid(-new / tau) - torch.sigmoid(-old / tau)
        return gains.new_zeros(flip_sets.count).index_add_(0, changed.owner, gains)

    def _steps(
        self,
        candidates: Sequence[Tensor],
        changes: Tensor,
        additions: int,
        returns: int,
        room: int,
    ) -> list[Tensor]:
        """Return improvements, the largest first: codes [1] of a flip to add, or [2] to exchange.

        No two share a node: their effects would not add up.
        """
        values = changes.tolist()
        nodes = [{*self._clean.ends(codes).flatten().tolist()} for codes in candidates]
        returning = sorted(range(additions, additions + returns), key=values.__getitem__)
        steps: list[Tensor] = []
        used: set[int] = set()
        for index in sorted(range(len(candidates)), key=values.__getitem__):
            if values[index] >= 0:
                break
            if used & nodes[index] or additions <= index < additions + returns:
                continue
            step = candidates[index]
            if index < additions and room > 0:
                room -= 1
            elif index < additions:
                while returning and used & nodes[returning[0]]:
                    returning.pop(0)
                if not returning or values[index] + values[returning[0]] >= 0:
                    continue
                other = returning.pop(0)
                used |= nodes[other]
                step = torch.cat([step, candidates[other]])
            used |= nodes[index]
            steps.append(step)
        return steps

    def _make(self, codes: Tensor) -> None:
        """Flip these, and keep the result if it is the best so far."""
        self.trials.move(self._clean.ends(codes))
        back = torch.isin(codes, self._flips)
        self._flips = torch.cat([self._flips[~torch.isin(self._flips, codes)], codes[~back]])
        self._margins = self._now()
        right = self._count()
        if right <= self.right:
            self.right, self.best = right, self._flips

    def _now(self) -> Tensor:
        return margins_of(self.trials.logits(), self._question.labels)

    def _count(self) -> int:
        """Return the number of targets that are right, those on the boundary among them."""
        return int((self._margins <= 0).sum())
