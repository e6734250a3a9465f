"""Every set of up to so many removed edges: under which does a target lose its class?

Sets are tried by their size, each target on its own from two edges on, so that the first one found
is a smallest one. An edge without an end that is near a target changes nothing for it, whatever
else is removed: fewer edges reach no further. (Our own.)
"""

from __future__ import annotations

from math import comb
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.modification.shared.flip_set_search import (
    FlipQuestion,
    FlipSetSearch,
    FoundFlips,
)
from grb_check.attacks.modification.shared.whole_trials import MOST_WHOLE

MOST_SETS: Final = 20_000  # of one size that are tried at a target: more leave it undecided


def every_removal(question: FlipQuestion, most: int, seconds: float | None = None) -> FoundFlips:
    """Try all sets of up to `most` edges that can change a target.

    Args:
        question: what is asked.
        most: edges in a set.
        seconds: after which all targets that are not lost are undecided; None for no end.
    """
    search = FlipSetSearch(question, seconds)
    edges = _near(question, search.near)
    for some in torch.split(edges[:, :, None], question.together, dim=1):
        if not search.ask(some):
            return search.result()
    for size in range(2, most + 1):
        search.settle()
        standing = search.standing
        standing = standing[question.budgets[standing] >= size]
        # The model is called on a small graph: a set is asked of all targets at once.
        at_once = question.num_nodes if question.num_nodes <= MOST_WHOLE else 1
        for some in torch.split(standing, at_once):
            if not _ask(search, question, some, size):
                return search.result()
    return search.result()


def _ask(search: FlipSetSearch, question: FlipQuestion, at: Tensor, size: int) -> bool:
    """Ask targets at positions int64 [k] for all sets of one size; False if the time is over."""
    search.only(at)
    edges = _near(question, search.near)
    if comb(edges.shape[1], size) > MOST_SETS:
        search.leave_open(at)
        return True
    own = torch.isin(edges, question.targets[at]).any(0)
    edges = edges[:, own.logical_not().long().argsort(stable=True)]  # those at the target first
    every = torch.arange(edges.shape[1], device=edges.device)
    for some in torch.split(torch.combinations(every, size), question.together):
        if not search.ask(edges[:, some]):
            return False
    return True


def _near(question: FlipQuestion, near: Tensor) -> Tensor:
    """Return the edges int64 [2, m] of which an end is near, bool [N]."""
    edges = question.edges.ends(question.edges.codes)
    return edges[:, near[edges].any(0)]
