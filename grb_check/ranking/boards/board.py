"""A leaderboard: accuracies of defences under attacks, and their summaries. Loads no torch."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

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

Fraction: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Value = TypeVar("Value")
Table: TypeAlias = dict[str, dict[str, dict[str, Value]]]  # row -> defence -> difficulty

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
        repeats: the accuracy in each; empty if only the mean is published.
    """

    mean: Fraction
    deviation: Fraction
    repeats: tuple[Fraction, ...] = ()

    @classmethod
    def of(cls, repeats: Sequence[float]) -> Cell:
        """Return the cell of the accuracies in one or more repeats."""
        figure = over_repeats(average, [repeats])
        return cls(mean=figure.mean, deviation=figure.deviation, repeats=tuple(repeats))


class Board(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The leaderboard of one dataset, as its file holds it. All accuracies are fractions.

    Attributes:
        name: `published`, `zoo`, or the stem of the file, which does not hold it.
        dataset: name.
        difficulties: from easy to full.
        attacks: as in case ids (`injection/rnd`), without `NO_ATTACK`.
        adaptive: those of the attacks that see the model.
        defences: titles of models.
        cells: of each attack and `NO_ATTACK`, of all defences at all difficulties.
        printed: of each measure, the published summaries.
        models: defence -> name and version of a reference model, or `pkg.module:attr` of another;
            empty for a published leaderboard.
        fingerprint: of the data that it was measured on; empty for a published leaderboard.
        split: rule of the split, `grb` or `given`; empty for a published leaderboard.
        about: lines on its origin.
    """

    name: str = ""
    dataset: str
    fingerprint: str = ""
    split: str = ""
    about: tuple[str, ...] = ()
    difficulties: tuple[str, ...]
    attacks: tuple[str, ...]
    adaptive: tuple[str, ...] = ()
    defences: tuple[str, ...]
    models: dict[str, str] = {}
    cells: Table[Cell]
    printed: Table[Cell] = {}

    @property
    def rows(self) -> tuple[str, ...]:
        """The attacks, and `NO_ATTACK`."""
        return (*self.attacks, NO_ATTACK)

    @property
    def repeats(self) -> int:
        """Number of repeats of each cell; 0 if only means are published."""
        first = self.cells[NO_ATTACK][self.defences[0]][self.difficulties[0]]
        return len(first.repeats)

    @property
    def black_box(self) -> tuple[str, ...]:
        """The attacks that do not see the model."""
        return tuple(attack for attack in self.attacks if attack not in self.adaptive)

    @property
    def contents(self) -> str:
        """Attacks and difficulties, for messages."""
        return f"{', '.join(self.attacks)} at {', '.join(self.difficulties)}"

    def has(self, case: Case) -> bool:
        """Whether it has the attack of a case, at its difficulty."""
        attack = f"{case.scenario}/{case.attack}"
        return case.difficulty in self.difficulties and attack in self.attacks

    def among(self, defences: Collection[str]) -> Board:
        """Return the board with only these of its defences."""
        retained = tuple(defence for defence in self.defences if defence in defences)
        return msgspec.structs.replace(self, defences=retained)


def not_measured(board: Board) -> tuple[str, ...]:
    """Return the titles of the reference models that the board lacks, or has in another version.

    A board stays valid when a model is added, and lists name that model as not measured.
    """
    measured = set(board.models.values())
    return tuple(entry.title for entry in ZOO.values() if entry.described not in measured)


def defence_summary(
    board: Board,
    defence: str,
    difficulty: str,
    measure: DefenceMeasure,
    attacks: Collection[str] | None = None,
) -> Figure:
    """Summarise a defence's accuracies under the attacks and without attack.

    The published figure if there is one and all attacks are used. Otherwise it is formed inside
    the repeats, or, if the cells have none, from their means with a deviation of nan: `avg_3min`
    and `weighted` are then a little too high, the more so the more the repeats differ.

    Args:
        board: the leaderboard.
        defence: title, one of the board's.
        difficulty: one of the board's.
        measure: `avg`, `avg_3min` or `weighted`.
        attacks: to use besides `NO_ATTACK`; None for all of the board.
    """
    chosen = [attack for attack in board.attacks if attacks is None or attack in attacks]
    if measure in board.printed and len(chosen) == len(board.attacks):
        printed = board.printed[measure][defence][difficulty]
        return Figure(printed.mean, printed.deviation)
    cells = [board.cells[row][defence][difficulty] for row in (*chosen, NO_ATTACK)]
    return summary_of(cells, DEFENCE_MEASURES[measure])


def attack_summary(board: Board, attack: str, difficulty: str, measure: AttackMeasure) -> Figure:
    """Summarise the accuracies of all defences under an attack, or without attack.

    Formed inside the repeats, or, if the cells have none, from their means with a deviation of nan;
    `avg_3max` and `weighted` are then a little too low.

    Args:
        board: the leaderboard.
        attack: one of the board's, or `NO_ATTACK`.
        difficulty: one of the board's.
        measure: `avg`, `avg_3max` or `weighted`.
    """
    cells = [board.cells[attack][defence][difficulty] for defence in board.defences]
    return summary_of(cells, ATTACK_MEASURES[measure])


def summary_of(cells: Sequence[Cell], metric: Metric) -> Figure:
    """Apply a metric inside the repeats, or to the means if cells differ in number of repeats."""
    counts = {len(cell.repeats) for cell in cells}
    if len(counts) == 1 and counts != {0}:
        return over_repeats(metric, [cell.repeats for cell in cells])
    return Figure(metric([cell.mean for cell in cells]), math.nan)
