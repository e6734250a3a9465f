"""A leaderboard as a table in Markdown, in GRB's layout."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.cases.metrics import Figure, ranks
from grb_check.ranking.boards.board import (
    NO_ATTACK,
    AttackMeasure,
    Board,
    DefenceMeasure,
    attack_summary,
    defence_summary,
)

DEFENCE_TITLES: Final[Mapping[DefenceMeasure, str]] = {
    "avg": "Avg.",
    "avg_3min": "Avg. 3-Min",
    "weighted": "Weighted",
}
ATTACK_TITLES: Final[Mapping[AttackMeasure, str]] = {
    "avg": "Avg.",
    "avg_3max": "Avg. 3-Max",
    "weighted": "Weighted",
}
_ADAPTIVE: Final = (
    " Black-box attacks do not see the model, adaptive ones do; ranks are in parentheses."
)


@dataclass(frozen=True)
class Block:
    """The table of one difficulty.

    Attributes:
        columns: defences, then summaries of attacks.
        rows: attacks, `NO_ATTACK`, then summaries of defences.
        figures: (row, column) -> figure; there is none for a summary of summaries.
    """

    columns: tuple[str, ...]
    rows: tuple[str, ...]
    figures: Mapping[tuple[str, str], Figure]


def markdown(board: Board) -> str:
    """Return the board's origin, the defences in order, and one table for each difficulty."""
    lines = [f"# Leaderboard: {board.dataset}", ""]
    lines += [f"- {_escaped(line)}" for line in board.about]
    lines += [
        "",
        "Accuracy in percent, mean ± standard deviation over the repeats. Weighted: the lowest "
        "accuracy of a defence, or the highest under an attack, counts most (1/i², normalised). "
        f"Summaries of defences include the row without attack; {_formed(board)}."
        f"{_ADAPTIVE if board.adaptive else ''} The order is that at {board.difficulties[-1]}.",
        "",
        "## Defences by weighted accuracy",
        "",
        *_ranking(board),
    ]
    for difficulty in board.difficulties:
        lines += ["", f"## {difficulty}", "", *_markdown_block(board, difficulty)]
    return "\n".join(lines) + "\n"


def block_of(board: Board, difficulty: str) -> Block:
    """Return the figures of one difficulty in order."""
    defences = tuple(defence_ranks(board))
    rows = (*attack_ranks(board), NO_ATTACK)
    cells = {
        (row, defence): board.cells[row][defence][difficulty]
        for row in rows
        for defence in defences
    }
    figures = {key: Figure(cell.mean, cell.deviation) for key, cell in cells.items()}
    for measure, title in DEFENCE_TITLES.items():
        for defence in defences:
            figures[title, defence] = defence_summary(board, defence, difficulty, measure)
    for attack_measure, title in ATTACK_TITLES.items():
        for row in rows:
            figures[row, title] = attack_summary(board, row, difficulty, attack_measure)
    return Block(
        columns=(*defences, *ATTACK_TITLES.values()),
        rows=(*rows, *DEFENCE_TITLES.values()),
        figures=figures,
    )


def defence_ranks(board: Board, attacks: Collection[str] | None = None) -> dict[str, int]:
    """Return defences with their rank by weighted accuracy at the last difficulty, best first.

    Args:
        board: the leaderboard.
        attacks: to use besides `NO_ATTACK`; None for all of the board.
    """
    last = board.difficulties[-1]
    figures = {
        defence: defence_summary(board, defence, last, "weighted", attacks).mean
        for defence in board.defences
    }
    return _in_order(ranks(figures, best="highest"))


def attack_ranks(board: Board) -> dict[str, int]:
    """Return attacks with their rank by weighted accuracy at the last difficulty."""
    last = board.difficulties[-1]
    figures = {
        attack: attack_summary(board, attack, last, "weighted").mean for attack in board.attacks
    }
    return _in_order(ranks(figures, best="lowest"))


def _formed(board: Board) -> str:
    if board.repeats:
        return "all are formed inside each repeat"
    if board.printed:
        return "they are as published, those of attacks formed from the means"
    return "all are formed from the means"


def _in_order(places: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(places.items(), key=lambda item: item[1]))


def _ranking(board: Board) -> list[str]:
    """Over all attacks at each difficulty; then, at the last, over those of each knowledge."""
    last = board.difficulties[-1]
    kinds = {"black-box": board.black_box, "adaptive": board.adaptive}
    apart = {} if not all(kinds.values()) else kinds
    positions = {kind: defence_ranks(board, attacks) for kind, attacks in apart.items()}
    head = ("", "Defence", *board.difficulties, *(f"{last}, {kind}" for kind in apart))
    rows = []
    for defence, rank in defence_ranks(board).items():
        every = (defence_summary(board, defence, level, "weighted") for level in board.difficulties)
        cells = [_text(figure) for figure in every]
        for kind, attacks in apart.items():
            figure = defence_summary(board, defence, last, "weighted", attacks)
            cells.append(f"{_text(figure)} ({positions[kind][defence]})")
        rows.append((str(rank), defence, *cells))
    return _table(head, rows)


def _markdown_block(board: Board, difficulty: str) -> list[str]:
    block = block_of(board, difficulty)
    numbered = {
        name: f"{rank} {name}"
        for positions in (defence_ranks(board), attack_ranks(board))
        for name, rank in positions.items()
    }
    head = ("Attack", *(numbered.get(column, column) for column in block.columns))
    rows = [
        (
            numbered.get(row, row),
            *(_text(block.figures.get((row, column))) for column in block.columns),
        )
        for row in block.rows
    ]
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(map(_escaped, line))} |" for line in lines]


def _text(figure: Figure | None) -> str:
    if figure is None:
        return ""
    deviation = "" if math.isnan(figure.deviation) else f" ± {100 * figure.deviation:.2f}"
    return f"{100 * figure.mean:.2f}{deviation}"


def _escaped(text: str) -> str:
    """Return a text without characters that end a cell or a line of a table."""
    return " ".join(text.split()).replace("|", "\\|")
