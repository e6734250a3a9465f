"""Leaderboards for tests: of given accuracies, and a hypothesis strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hypothesis import strategies as st

from grb_check.cases.case import DIFFICULTIES
from grb_check.files.outputs import write_output
from grb_check.ranking.boards.board import NO_ATTACK, Board, Cell
from grb_check.ranking.boards.files import board_text

ATTACKS = ("injection/rnd", "injection/pgd+budget=0.1", "modification/dice")
TITLES = ("GCN", "GAT+LN", "R-GCN", "mine | yours", "ü")


def board_of(
    accuracies: Mapping[str, Mapping[str, Sequence[float]]], *, difficulty: str = "full"
) -> Board:
    """A board of one difficulty: defence -> attack or `NO_ATTACK` -> accuracy in each repeat."""
    attacks = [row for row in next(iter(accuracies.values())) if row != NO_ATTACK]
    cells = {
        row: {defence: {difficulty: Cell.of(rows[row])} for defence, rows in accuracies.items()}
        for row in (*attacks, NO_ATTACK)
    }
    return Board(
        name="made",
        dataset="tiny",
        difficulties=(difficulty,),
        attacks=tuple(attacks),
        defences=tuple(accuracies),
        cells=cells,
    )


def write_board(board: Board, path: Path) -> None:
    """Write a board's file, and make its directory."""
    write_output(path, board_text(board).encode())


@st.composite
def boards(draw: st.DrawFn, *, with_repeats: bool | None = None) -> Board:
    """Whole boards, with or without repeats and printed summaries."""
    fractions = st.floats(0, 1)
    names = st.text(st.characters(codec="utf-8").filter(str.isprintable), min_size=1, max_size=8)
    attacks = draw(st.lists(st.sampled_from(ATTACKS), min_size=1, unique=True))
    defences = draw(st.lists(st.sampled_from(TITLES), min_size=1, unique=True))
    levels = [level for level in DIFFICULTIES if draw(st.booleans())] or ["full"]
    count = draw(st.integers(1, 3)) if with_repeats is not False else 0
    if with_repeats is None and draw(st.booleans()):
        count = 0

    def cell() -> Cell:
        repeats = draw(st.lists(fractions, min_size=count, max_size=count))
        bare = Cell(mean=draw(fractions), deviation=draw(fractions)) if not count else None
        return bare or Cell.of(repeats)

    def table(rows: Sequence[str]) -> dict[str, dict[str, dict[str, Cell]]]:
        return {
            row: {defence: {level: cell() for level in levels} for defence in defences}
            for row in rows
        }

    cells = table((*attacks, NO_ATTACK))
    printed = table(["weighted"]) if not count and draw(st.booleans()) else {}
    return Board(
        name="board",
        dataset=draw(names.filter(str.strip)),
        difficulties=tuple(levels),
        attacks=tuple(attacks),
        defences=tuple(defences),
        cells=cells,
        printed=printed,
        fingerprint=draw(names),
        split=draw(st.sampled_from(["grb", "given", ""])),
        about=tuple(draw(st.lists(names, max_size=2))),
    )
