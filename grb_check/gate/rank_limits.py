"""Limits on ranks: the worst rank that passes on a dataset at a difficulty. No torch."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from grb_check.cases.whole_numbers import whole_number
from grb_check.errors import UsageError

FLAG: Final = "--grb-min-rank"
EXAMPLE: Final = "grb-cora/full = 5"
WORST_RANK: Final = 10_000


@dataclass(frozen=True)
class RankLimit:
    """The worst rank that passes in groups that match `pattern`."""

    pattern: str
    rank: int


@dataclass(frozen=True, order=True)
class Group:
    """The cases of one model on one dataset at one difficulty.

    Attributes:
        model: its label.
        dataset: name.
        difficulty: name.
        several: whether the run has several models; ids then hold the label.
    """

    model: str
    dataset: str
    difficulty: str
    several: bool = False

    @property
    def id(self) -> str:
        """`[model@]dataset/difficulty`."""
        return f"{f'{self.model}@' if self.several else ''}{self.dataset}/{self.difficulty}"

    def matches(self, pattern: str) -> bool:
        """Whether a shell pattern matches, with or without `model@`."""
        plain = f"{self.dataset}/{self.difficulty}"
        return fnmatchcase(plain, pattern) or fnmatchcase(f"{self.model}@{plain}", pattern)


def parse_rank_limit(line: str) -> RankLimit:
    """Read `[model@]dataset/difficulty = rank`, with shell wildcards on the left.

    Raises:
        UsageError: the line has another form, or the right side is not a rank.
    """
    pattern, separator, text = (part.strip() for part in line.rpartition("="))
    if not separator or not pattern:
        raise UsageError(
            f"{FLAG} {line!r} must have the form 'dataset/difficulty = rank', such as {EXAMPLE!r}"
        )
    rank = whole_number(text, 1, WORST_RANK)
    if rank is None:
        raise UsageError(
            f"{FLAG} {reprlib.repr(line)}: {reprlib.repr(text)} is not a rank; give a whole number "
            f"from 1 to {WORST_RANK:,}"
        )
    return RankLimit(pattern, rank)


def check_rank_limits(limits: Sequence[RankLimit], known: Sequence[Group]) -> None:
    """Refuse a limit that can never apply.

    Raises:
        UsageError: its pattern matches none of the known groups.
    """
    for limit in limits:
        if not any(group.matches(limit.pattern) for group in known):
            raise UsageError(
                f"{FLAG} pattern {limit.pattern!r} matches no dataset and difficulty of this run; "
                f"write [model@]dataset/difficulty, such as {known[0].id!r}"
            )


def limit_of(group: Group, limits: Sequence[RankLimit]) -> RankLimit | None:
    """Return the limit of a group, the last that matches; None if none does."""
    return next((each for each in reversed(limits) if group.matches(each.pattern)), None)
