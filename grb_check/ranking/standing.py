"""The standing of a model on a board: its rank and its neighbours. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grb_check.cases.metrics import over_repeats, weighted_lowest
from grb_check.ranking.boards.board import NO_ATTACK, Board, defence_summary


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A defence of the board that is next to the model."""

    name: str
    figure: float


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A model's rank among the defences of a board.

    Attributes:
        board: its name.
        dataset: of the board.
        difficulty: one of the board's.
        attack: name; empty if the accuracy is weighted over attacks.
        figure: the model's accuracy, or weighted accuracy.
        rank: 1 + the number of defences that are strictly better.
        competitors: number of defences, plus 1 for the model itself.
        better: the next defence that is strictly better; None if there is none.
        worse: the next defence that is strictly worse; None if there is none.
        attacks: number of attacks that the figure is over.
        missing: attacks of the board that the model was not evaluated under.
    """

    board: str
    dataset: str
    difficulty: str
    attack: str
    figure: float
    rank: int
    competitors: int
    better: Neighbour | None
    worse: Neighbour | None
    attacks: int
    missing: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Place:
    """The rank of a model by weighted accuracy on one board, or why it has none.

    Attributes:
        group: `[model@]dataset/difficulty`.
        model: its name.
        dataset: name.
        difficulty: name.
        standing: None if the model is not ranked.
        reason: why not; empty otherwise.
    """

    group: str
    model: str
    dataset: str
    difficulty: str
    standing: Standing | None
    reason: str = ""


def weighted_standing(
    board: Board, difficulty: str, accuracies: Mapping[str, Sequence[float]]
) -> Standing | None:
    """Rank a model by its weighted accuracy over the attacks that it shares with the board.

    The accuracy without attack is part of it on both sides. The board's figures are formed over
    the same attacks, see `defence_summary`.

    Args:
        board: to rank on.
        difficulty: name.
        accuracies: attack, or `NO_ATTACK` -> the model's accuracy in each repeat, as fractions.

    Returns:
        None if the board lacks the difficulty or shares no attack.

    Raises:
        ValueError: `accuracies` lacks `NO_ATTACK`, or repeats differ in number.
    """
    common = [attack for attack in board.attacks if attack in accuracies]
    if difficulty not in board.difficulties or not common:
        return None
    if NO_ATTACK not in accuracies:
        raise ValueError(f"weighted accuracy needs {NO_ATTACK!r}; got {list(accuracies)}")
    own = over_repeats(weighted_lowest, [accuracies[row] for row in (*common, NO_ATTACK)]).mean
    others = {
        defence: defence_summary(board, defence, difficulty, "weighted", common).mean
        for defence in board.defences
    }
    missing = tuple(attack for attack in board.attacks if attack not in accuracies)
    return _standing(board, difficulty, "", own, others, len(common), missing)


def standing_under(board: Board, difficulty: str, attack: str, accuracy: float) -> Standing | None:
    """Rank a model by its accuracy under one attack.

    Args:
        board: to rank on.
        difficulty: name.
        attack: as in case ids, or `NO_ATTACK`.
        accuracy: the model's, as a fraction.

    Returns:
        None if the board lacks the difficulty or the attack.
    """
    if difficulty not in board.difficulties or attack not in board.rows:
        return None
    others = {defence: board.cells[attack, defence, difficulty].mean for defence in board.defences}
    return _standing(board, difficulty, attack, accuracy, others, 1, ())


def _standing(
    board: Board,
    difficulty: str,
    attack: str,
    own: float,
    others: Mapping[str, float],
    attacks: int,
    missing: tuple[str, ...],
) -> Standing:
    better = [Neighbour(name=name, figure=value) for name, value in others.items() if value > own]
    worse = [Neighbour(name=name, figure=value) for name, value in others.items() if value < own]
    return Standing(
        board=board.name,
        dataset=board.dataset,
        difficulty=difficulty,
        attack=attack,
        figure=own,
        rank=1 + len(better),
        competitors=1 + len(others),
        better=min(better, key=lambda each: each.figure, default=None),
        worse=max(worse, key=lambda each: each.figure, default=None),
        attacks=attacks,
        missing=missing,
    )
