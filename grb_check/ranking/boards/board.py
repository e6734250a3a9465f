"""A leaderboard: accuracies of defences under attacks, and their summaries. Loads no torch."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from grb_check.cases.case import Case
from grb_check.cases.metrics import (
    Figure,
    Metric,
    average,
    average_highest,
    average_lowest,
    over_repeats,
    weighted_highest,
    weighted_lowest,
)
from grb_check.models.zoo import ZOO

NO_ATTACK: Final = "no attack"

Key: TypeAlias = tuple[str, str, str]  # attack (or summary), defence, difficulty

DefenceMeasure: TypeAlias = Literal["avg", "avg_3min", "weighted"]
AttackMeasure: TypeAlias = Literal["avg", "avg_3max", "weighted"]

DEFENCE_MEASURES: Final[Mapping[DefenceMeasure, Metric]] = MappingProxyType(
    {"avg": average, "avg_3min": average_lowest, "weighted": weighted_lowest}
)
ATTACK_MEASURES: Final[Mapping[AttackMeasure, Metric]] = MappingProxyType(
    {"avg": average, "avg_3max": average_highest, "weighted": weighted_highest}
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Accuracy of one defence under one attack, as fractions.

    Attributes:
        mean: over the repeats.
        deviation: standard deviation over the repeats.
        repeats: the accuracy of each; empty where only the mean is published.
    """

    mean: float
    deviation: float
    repeats: tuple[float, ...] = ()

    @classmethod
    def of(cls, repeats: Sequence[float]) -> Cell:
        """The cell of the accuracies of one or more repeats."""
        figure = over_repeats(average, [repeats])
        return cls(mean=figure.mean, deviation=figure.deviation, repeats=tuple(repeats))


@dataclass(frozen=True, kw_only=True)
class Board:
    """The leaderboard of one dataset. All accuracies are fractions.

    Attributes:
        name: `published`, `zoo`, or the stem of the file.
        dataset: its name.
        difficulties: which it has.
        attacks: as in case ids (`injection/rnd`), without the row without attack.
        defences: titles of models.
        cells: (attack or `NO_ATTACK`, defence, difficulty) -> accuracy; every one of them.
        printed: (measure, defence, difficulty) -> the summary that is published with it.
        models: defence -> name and version of a model of ours, `pkg.module:attr` of another; empty
            for published ones.
        fingerprint: of the data it was measured on; empty for published ones.
        split: the rule of the split, `grb` or `given`; empty for published ones.
        about: where it is from, a line each.
    """

    name: str
    dataset: str
    difficulties: tuple[str, ...]
    attacks: tuple[str, ...]
    defences: tuple[str, ...]
    cells: Mapping[Key, Cell]
    printed: Mapping[Key, Figure] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = ""
    split: str = ""
    about: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[str, ...]:
        """The attacks, and `NO_ATTACK`."""
        return (*self.attacks, NO_ATTACK)

    @property
    def contents(self) -> str:
        """Attacks and difficulties, for messages."""
        return f"{', '.join(self.attacks)} at {', '.join(self.difficulties)}"

    def has(self, case: Case) -> bool:
        """Whether it has the attack of a case, at its difficulty."""
        attack = f"{case.scenario}/{case.attack}"
        return case.difficulty in self.difficulties and attack in self.attacks

    def among(self, defences: Collection[str]) -> Board:
        """The board with these of its defences alone."""
        kept = tuple(each for each in self.defences if each in defences)
        cells = {key: cell for key, cell in self.cells.items() if key[1] in kept}
        printed = {key: figure for key, figure in self.printed.items() if key[1] in kept}
        return replace(self, defences=kept, cells=cells, printed=printed)


def not_measured(board: Board) -> tuple[str, ...]:
    """Titles of the reference models that the board lacks, or has of another version.

    The board stays what it is when a model is added, and says that this one is not on it.
    """
    measured = set(board.models.values())
    return tuple(each.title for each in ZOO.values() if each.described not in measured)


def defence_summary(
    board: Board,
    defence: str,
    difficulty: str,
    measure: DefenceMeasure,
    attacks: Collection[str] | None = None,
) -> Figure:
    """A defence's accuracies under the attacks and without one, in one figure.

    The published figure, where there is one and all attacks are asked for. Else it is formed
    inside the repeats, where the cells have them. Else it is formed from their means, with a
    deviation of nan: `avg_3min` and `weighted` are then a little too high, the more so the more the
    repeats differ.

    Args:
        board: the leaderboard.
        defence: title, one of the board's.
        difficulty: one of the board's.
        measure: `avg`, `avg_3min` or `weighted`.
        attacks: those to use, beside the row without attack; None for all of the board.
    """
    chosen = [each for each in board.attacks if attacks is None or each in attacks]
    printed = board.printed.get((measure, defence, difficulty))
    if printed is not None and len(chosen) == len(board.attacks):
        return printed
    cells = [board.cells[row, defence, difficulty] for row in (*chosen, NO_ATTACK)]
    return summary_of(cells, DEFENCE_MEASURES[measure])


def attack_summary(board: Board, attack: str, difficulty: str, measure: AttackMeasure) -> Figure:
    """The accuracies of all defences under an attack, or without one, in one figure.

    Formed inside the repeats, where the cells have them, else from their means, with a deviation of
    nan; `avg_3max` and `weighted` are then a little too low.

    Args:
        board: the leaderboard.
        attack: one of the board's, or `NO_ATTACK`.
        difficulty: one of the board's.
        measure: `avg`, `avg_3max` or `weighted`.
    """
    cells = [board.cells[attack, defence, difficulty] for defence in board.defences]
    return summary_of(cells, ATTACK_MEASURES[measure])


def summary_of(cells: Sequence[Cell], metric: Metric) -> Figure:
    """A metric inside the repeats, or of the means where the cells do not have the same number."""
    counts = {len(cell.repeats) for cell in cells}
    if len(counts) == 1 and counts != {0}:
        return over_repeats(metric, [cell.repeats for cell in cells])
    return Figure(metric([cell.mean for cell in cells]), math.nan)
