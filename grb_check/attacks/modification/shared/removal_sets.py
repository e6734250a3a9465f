"""Every set of up to so many removed edges: under which does a target lose its class?

Sets are tried by their size, each target on its own from two edges on, so that the first one found
is a smallest one; targets with few edges around them come first, since time may end. An edge
without an end that is near a target changes nothing for it, whatever else is removed: fewer edges
reach no further. (Our own.)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, islice
from math import comb, factorial
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.modification.shared.flip_set_search import (
    FlipQuestion,
    FlipSetSearch,
    FoundFlips,
)
from grb_check.attacks.modification.shared.whole_trials import MOST_WHOLE

# Of one size that are tried at a target if no time is set: more leave it undecided.
MOST_SETS: Final = 20_000


def every_removal(question: FlipQuestion, most: int, seconds: float | None = None) -> FoundFlips:
    """Try all sets of up to `most` edges that can change a target.

    Args:
        question: what is asked.
        most: edges in a set.
        seconds: after which targets are undecided that are not lost and not asked for all of their
            sets; None for no end, and at most `MOST_SETS` of each size for a target.
    """
    search = FlipSetSearch(question, seconds)
    edges = _near(question, search.near)
    for some in torch.split(edges[:, :, None], question.together, dim=1):
        if not search.ask(some):
            return search.result()
    most_sets = MOST_SETS if seconds is None else None
    search.finish((question.budgets.clamp(max=most) < 2).nonzero().squeeze(1))
    work = _work(question, most, most_sets)
    total = max(1.0, float(work.sum()))
    for size in range(2, most + 1):
        search.settle()
        left = float(work[search.standing, size:].sum())
        standing = search.standing[work[search.standing, size].argsort(stable=True)]
        standing = standing[question.budgets[standing] >= size]
        # The model is called on a small graph: a set is asked of all targets at once.
        at_once = question.num_nodes if question.num_nodes <= MOST_WHOLE else 1
        for some in torch.split(standing, at_once):
            search.tell(1 - left / total)
            left -= float(work[some, size].sum())
            if not _ask(search, question, some, size, most_sets):
                return search.result()
            search.finish(some[question.budgets[some].clamp(max=most) == size])
    return search.result()


def _ask(
    search: FlipSetSearch, question: FlipQuestion, at: Tensor, size: int, most_sets: int | None
) -> bool:
    """Ask targets at positions int64 [k] for all sets of one size; False if the time is over."""
    search.only(at)
    edges = _near(question, search.near)
    if most_sets is not None and comb(edges.shape[1], size) > most_sets:
        search.leave_open(at)
        return True
    own = torch.isin(edges, question.targets[at]).any(0)
    edges = edges[:, own.logical_not().long().argsort(stable=True)]  # those at the target first
    return all(
        search.ask(edges[:, some.to(edges.device)])
        for some in _sets(edges.shape[1], size, question.together)
    )


def _sets(count: int, size: int, together: int) -> Iterator[Tensor]:
    """Yield all sets of so many of `count` things, int64 [at most `together`, size] at a time."""
    every = combinations(range(count), size)
    while some := list(islice(every, together)):
        yield torch.tensor(list(chain.from_iterable(some))).view(-1, size)


def _work(question: FlipQuestion, most: int, most_sets: int | None) -> Tensor:
    """Return about how many sets of each size are tried at each target, float64 [t, most + 1].

    By the number of edges at its neighbours; 0 for sizes below two.
    """
    degrees = question.edges.degrees()
    first, second = question.edges.edge_index()
    around = torch.zeros_like(degrees).index_add(0, first, degrees[second])
    edges = around[question.targets].double()
    result = edges.new_zeros((edges.numel(), most + 1))
    for size in range(2, most + 1):
        factors = [(edges - taken).clamp(min=0.0) for taken in range(size)]
        sets = torch.stack(factors).prod(0) / factorial(size)
        tried = question.budgets >= size
        if most_sets is not None:
            tried &= sets <= most_sets
        result[:, size] = sets * tried
    return result


def _near(question: FlipQuestion, near: Tensor) -> Tensor:
    """Return the edges int64 [2, m] of which an end is near, bool [N]."""
    edges = question.edges.ends(question.edges.codes)
    return edges[:, near[edges].any(0)]
