"""Where a model would stand on a leaderboard. Loads no torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    """A model's place among the defences of a board.

    Attributes:
        board: its name.
        dataset: of the board.
        difficulty: at which.
        attack: under which; empty where it is weighted over attacks.
        figure: the model's accuracy, or weighted accuracy.
        rank: 1 + the number of defences that are strictly better.
        competitors: the defences, and the model itself.
        better: the next one that is strictly better.
        worse: the next one that is strictly worse.
        attacks: how many attacks the figure is over.
        missing: attacks of the board that the model was not under.
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


def standing(
    board: Board,
    difficulty: str,
    rows: Mapping[str, Sequence[float]],
    only: Collection[str] = (),
) -> Standing | None:
    """The place by weighted accuracy over the attacks that both sides have.

    The row without attack belongs to it on both sides. The board's figures are formed over the same
    attacks, see `defence_summary`.

    Args:
        board: to rank on.
        difficulty: at which.
        rows: attack, or `NO_ATTACK` -> the model's accuracy in each repeat, as fractions.
        only: titles of the defences to rank among; empty for all. The board's others do not count.

    Returns:
        None where the board lacks the difficulty, shares no attack, or has none of `only`.

    Raises:
        ValueError: `rows` lacks `NO_ATTACK`, or rows differ in length.
    """
    common = [attack for attack in board.attacks if attack in rows]
    if difficulty not in board.difficulties or not common:
        return None
    if NO_ATTACK not in rows:
        raise ValueError(f"the weighted accuracy needs the row {NO_ATTACK!r}; got {list(rows)}")
    own = over_repeats(weighted_lowest, [rows[row] for row in (*common, NO_ATTACK)]).mean
    others = {
        defence: defence_summary(board, defence, difficulty, "weighted", common).mean
        for defence in _among(board, only)
    }
    missing = tuple(attack for attack in board.attacks if attack not in rows)
    return _placed(board, difficulty, "", own, others, len(common), missing)


def standing_under(
    board: Board, difficulty: str, attack: str, accuracy: float, only: Collection[str] = ()
) -> Standing | None:
    """The place by accuracy under one attack.

    Args:
        board: to rank on.
        difficulty: at which.
        attack: as in case ids, or `NO_ATTACK`.
        accuracy: the model's, a fraction.
        only: titles of the defences to rank among; empty for all.

    Returns:
        None where the board lacks the difficulty or the attack, or has none of `only`.
    """
    if difficulty not in board.difficulties or attack not in board.rows:
        return None
    others = {
        defence: board.cells[attack, defence, difficulty].mean for defence in _among(board, only)
    }
    return _placed(board, difficulty, attack, accuracy, others, 1, ())


def _among(board: Board, only: Collection[str]) -> list[str]:
    return [defence for defence in board.defences if not only or defence in only]


def _placed(
    board: Board,
    difficulty: str,
    attack: str,
    own: float,
    others: Mapping[str, float],
    attacks: int,
    missing: tuple[str, ...],
) -> Standing | None:
    if not others:
        return None
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
