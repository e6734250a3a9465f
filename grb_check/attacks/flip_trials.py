"""Logits of targets under many small changes of one graph, for searches without gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Moves:
    """Candidates, each of which differs from the current graph by a few flips.

    Attributes:
        pairs: int64 [2, m], undirected, first < second; each once in a candidate.
        owner: int64 [m], ascending, which candidate flips the pair; 0 to `count` - 1.
        count: k, number of candidates.
    """

    pairs: Tensor
    owner: Tensor
    count: int


@dataclass(frozen=True, eq=False)
class Changed:
    """The targets that candidates change; the logits of all others stay as they are.

    Attributes:
        owner: int64 [q], ascending, of which candidate.
        place: int64 [q], position among the targets; each once in a candidate.
        logits: float [q, c], of that target under that candidate.
    """

    owner: Tensor
    place: Tensor
    logits: Tensor


class FlipTrials(Protocol):
    """The targets' logits in a graph, and under candidates for its next change."""

    @property
    def work(self) -> float:
        """Work so far, in forward passes on the whole graph; counted, not timed."""
        ...

    def logits(self) -> Tensor:
        """Return float [t, c] in the current graph."""
        ...

    def tried(self, moves: Moves) -> Changed:
        """Return what each candidate changes; the current graph stays as it is."""
        ...

    def move(self, pairs: Tensor) -> None:
        """Flip pairs int64 [2, m], each once, in the current graph."""
        ...


def one_move(pairs: Tensor) -> Moves:
    """Return a single candidate that flips all pairs int64 [2, m]."""
    return Moves(pairs, torch.zeros_like(pairs[0]), 1)


def joined(parts: Sequence[Changed], counts: Sequence[int]) -> Changed:
    """Return the changes of candidates that were tried in parts, numbered through.

    Args:
        parts: in order.
        counts: number of candidates of each.
    """
    firsts = accumulate(counts, initial=0)
    owners = [part.owner + first for part, first in zip(parts, firsts, strict=False)]
    return Changed(
        torch.cat(owners),
        torch.cat([part.place for part in parts]),
        torch.cat([part.logits for part in parts]),
    )


def parts_of(moves: Moves, size: int) -> Iterator[Moves]:
    """Yield the candidates in parts of `size`."""
    for first in range(0, moves.count, size):
        last = min(first + size, moves.count)
        limits = torch.searchsorted(moves.owner, moves.owner.new_tensor([first, last]))
        own = slice(*limits.tolist())
        yield Moves(moves.pairs[:, own], moves.owner[own] - first, last - first)
