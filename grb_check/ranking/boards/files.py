"""Leaderboards as typed JSON files, see `typed_json`. Loads no torch.

Accuracies are fractions.

A leaderboard in GRB's layout: attacks by defences, with summaries of both.

Defences are in order of their weighted accuracy at the last difficulty, the best first; attacks in
order of theirs, the strongest first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from grb_check import __version__
from grb_check.cases.metrics import Figure, ranks
from grb_check.errors import DataError, UsageError
from grb_check.files.outputs import check_output, try_write
from grb_check.files.typed_json import FileKind, encode, read
from grb_check.ranking.boards.board import (
    NO_ATTACK,
    AttackMeasure,
    Board,
    DefenceMeasure,
    attack_summary,
    defence_summary,
)

ZOO: Final = "zoo"
FOLDER: Final = "leaderboards"  # in the data home
WANTED: Final = "make it again with python -m grb_check leaderboard, or remove it"

BOARD: Final = FileKind(name="leaderboard", type=Board, format=4, remedy=WANTED)


def measured_board(dataset: str, home: Path) -> Board | None:
    """Return the measured leaderboard of a dataset, named `zoo`.

    Args:
        dataset: name.
        home: the data home, whose `leaderboards/DATASET.json` is used if none is shipped.

    Returns:
        None if there is none.

    Raises:
        DataError: the file is not a leaderboard, or is that of another dataset.
    """
    path = home / FOLDER / f"{dataset}.json"
    board = shipped_board(dataset)
    if board is None and path.is_file():
        board = read_board(path)
    if board is None:
        return None
    if board.dataset != dataset:
        raise DataError(
            f"{path} is the leaderboard of {board.dataset}, not of {dataset}; rename or remove it"
        )
    return replace(board, name=ZOO)


@cache
def shipped_board(dataset: str) -> Board | None:
    """Return the leaderboard of a dataset that comes along; None if there is none."""
    for file in files("grb_check").joinpath("ranking/boards/shipped").iterdir():
        if file.name == f"{dataset}.json":
            with as_file(file) as path:
                return read_board(path)
    return None


def read_board(path: Path) -> Board:
    """Read a file; the board has the name of the file, without its suffix.

    Raises:
        DataError: the file cannot be read, or is not a leaderboard.
    """
    try:
        return replace(read(BOARD, path), name=path.stem)
    except UsageError as error:
        raise DataError(str(error)) from None


def board_text(board: Board) -> str:
    """Return the text of the file."""
    return encode(BOARD, replace(board, name=""), __version__)


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
        f"{_ADAPTIVE if board.adaptive else ''}",
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


FORMATS: Final[Mapping[str, Callable[[Board], str]]] = {
    "json": board_text,
    "md": markdown,
}


def check_files(name: str, folder: Path) -> None:
    """Check that the files of a leaderboard can be written.

    Args:
        name: of the leaderboard.
        folder: that `--out` names.

    Raises:
        UsageError: see `check_output`.
    """
    for suffix in FORMATS:
        check_output("--out", folder / f"{name}.{suffix}")


def save(board: Board, folder: Path) -> dict[Path, str]:
    """Write the board's JSON and Markdown; one that fails leaves the others as they are.

    Returns:
        For each path why it was not written, in one line; empty if it was.
    """
    paths = {folder / f"{board.name}.{suffix}": text for suffix, text in FORMATS.items()}
    return {path: try_write(path, partial(text, board)) for path, text in paths.items()}
