"""Leaderboards as typed JSON files, see `typed_json`. Loads no torch.

Accuracies are fractions. Means and deviations of cells with repeats are checked against them.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import msgspec

from grb_check import __version__
from grb_check.cases.case import DIFFICULTIES
from grb_check.cases.metrics import Figure
from grb_check.errors import DataError, UsageError
from grb_check.files.typed_json import FileKind, encode, read
from grb_check.ranking.boards.board import DEFENCE_MEASURES, NO_ATTACK, Board, Cell, Fraction, Key

ZOO: Final = "zoo"
FOLDER: Final = "leaderboards"  # in the data home
TOLERANCE: Final = 1e-9  # of means and deviations against the repeats
WANTED: Final = "make it again with python -m grb_check leaderboard, or remove it"

Value = TypeVar("Value")
Table: TypeAlias = dict[str, dict[str, dict[str, Value]]]  # keys: those of `Key`, in order


class Content(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of the file; the fields are those of `Board`."""

    dataset: str
    fingerprint: str
    split: str
    about: tuple[str, ...]
    difficulties: tuple[str, ...]
    attacks: tuple[str, ...]
    adaptive: tuple[str, ...]
    defences: tuple[str, ...]
    models: dict[str, str]
    cells: Table[Cell]
    printed: Table[tuple[Fraction, Fraction]]


BOARD: Final = FileKind(name="leaderboard", type=Content, format=4, wanted=WANTED)


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
    shipped = files("grb_check").joinpath(f"ranking/boards/shipped/{dataset}.json")
    if shipped.is_file():
        with as_file(shipped) as resource:
            board = read_board(resource)
    elif path.is_file():
        board = read_board(path)
    else:
        return None
    if board.dataset != dataset:
        raise DataError(
            f"{path} is the leaderboard of {board.dataset}, not of {dataset}; rename or remove it"
        )
    return replace(board, name=ZOO)


def read_board(path: Path) -> Board:
    """Read a file; the board has the name of the file, without its suffix.

    Raises:
        DataError: the file cannot be read, or is not a leaderboard.
    """
    try:
        return _board(read(BOARD, path), path.stem)
    except UsageError as error:
        raise DataError(str(error)) from None
    except ValueError as error:
        raise DataError(f"leaderboard {str(path)!r} is damaged: {error}; {WANTED}") from None


def board_text(board: Board) -> str:
    """Return the text of the file."""
    content = Content(
        dataset=board.dataset,
        fingerprint=board.fingerprint,
        split=board.split,
        about=board.about,
        difficulties=board.difficulties,
        attacks=board.attacks,
        adaptive=board.adaptive,
        defences=board.defences,
        models=dict(board.models),
        cells=_nested(board.cells.items()),
        printed=_nested((key, (each.mean, each.deviation)) for key, each in board.printed.items()),
    )
    return encode(BOARD, content, __version__)


def _nested(entries: Iterable[tuple[Key, Value]]) -> Table[Value]:
    table: Table[Value] = {}
    for (first, second, third), value in entries:
        table.setdefault(first, {}).setdefault(second, {})[third] = value
    return table


def _flat(
    table: Mapping[str, Mapping[str, Mapping[str, Value]]],
    name: str,
    firsts: Iterable[str],
    content: Content,
) -> Iterator[tuple[Key, Value]]:
    """Yield the entries of a table; raises ValueError if keys lack or are unknown."""
    expected = {
        (first, each, level)
        for first in firsts
        for each in content.defences
        for level in content.difficulties
    }
    found = {
        (first, second, third): value
        for first, middle in table.items()
        for second, inner in middle.items()
        for third, value in inner.items()
    }
    odd = sorted(expected ^ found.keys())
    if odd:
        state = "is missing" if odd[0] in expected else "is of no attack, defence or difficulty"
        raise ValueError(f"{name} of {', '.join(map(reprlib.repr, odd[0]))} {state} of the file")
    yield from found.items()


def _board(content: Content, name: str) -> Board:
    """Return the board; raises ValueError if fields do not fit together."""
    _check_names(content)
    cells = dict(_flat(content.cells, "cells", (*content.attacks, NO_ATTACK), content))
    if len({len(cell.repeats) for cell in cells.values()}) > 1:
        raise ValueError("cells have different numbers of repeats")
    for key, cell in cells.items():
        _check_cell(key, cell)
    printed = _flat(content.printed, "printed", content.printed, content)
    return Board(
        name=name,
        dataset=content.dataset,
        difficulties=content.difficulties,
        attacks=content.attacks,
        adaptive=content.adaptive,
        defences=content.defences,
        cells=cells,
        printed={key: Figure(*pair) for key, pair in printed},
        models=content.models,
        fingerprint=content.fingerprint,
        split=content.split,
        about=content.about,
    )


def _check_cell(key: Key, found: Cell) -> None:
    """Check mean and deviation against the repeats, if there are any."""
    formed = Cell.of(found.repeats) if found.repeats else found
    for field in ("mean", "deviation"):
        own, other = getattr(found, field), getattr(formed, field)
        if abs(own - other) > TOLERANCE:
            raise ValueError(
                f"{field} of cell {', '.join(key)} is {own}, and its repeats give {other}"
            )


def _check_names(content: Content) -> None:
    """Check that names are unique and can be printed, since reports show them."""
    for field in ("difficulties", "attacks", "defences"):
        names = getattr(content, field)
        if not names or len(set(names)) < len(names):
            raise ValueError(f"{field} is empty or has a name twice")
    texts = (content.split, content.fingerprint, *content.about, *content.models.values())
    names = (content.dataset, *content.attacks, *content.defences)
    for name in (*names, *texts):
        if not name.isprintable() or (name in names and not name.strip()):
            raise ValueError(f"{reprlib.repr(name)} cannot be printed as a name")
    if NO_ATTACK in content.attacks:
        raise ValueError(f"attacks has {NO_ATTACK!r}, which every leaderboard has besides")
    for field, found, known in (
        ("difficulties", content.difficulties, DIFFICULTIES),
        ("adaptive", content.adaptive, content.attacks),
        ("models", content.models, content.defences),
        ("printed", content.printed, tuple(DEFENCE_MEASURES)),
    ):
        unknown = set(found) - set(known)
        if unknown:
            raise ValueError(
                f"{field} has {reprlib.repr(min(unknown))}, expected {', '.join(known)}"
            )
