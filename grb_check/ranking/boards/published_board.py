"""GRB's published leaderboards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from grb_check.attacks.scenarios import INJECTION
from grb_check.ranking.boards.board import NO_ATTACK, Board, Cell

PUBLISHED: Final = "published"
PERCENT: Final = 100
SCENARIO: Final = INJECTION  # of all published tables


def published_datasets() -> tuple[str, ...]:
    """Return the datasets that have a published leaderboard."""
    return tuple(_table()["boards"])


@cache
def published_board(dataset: str) -> Board | None:
    """Return the published leaderboard of a dataset in the printed order; None if there is none."""
    table = _table()
    record = table["boards"].get(dataset)
    if record is None:
        return None
    levels = tuple(table["difficulties"])
    titles = {table["no_attack"]: NO_ATTACK} | {name: _attack(name) for name in record["attacks"]}
    return Board(
        name=PUBLISHED,
        dataset=dataset,
        difficulties=levels,
        attacks=tuple(map(_attack, record["attacks"])),
        defences=tuple(record["defences"]),
        cells={titles[row]: _cells(values, levels) for row, values in record["accuracy"].items()},
        printed={row: _cells(values, levels) for row, values in record["defence_summary"].items()},
        about=_about(table["source"][0], record["table"]),
    )


def _cells(columns: Mapping[str, Any], levels: Sequence[str]) -> dict[str, dict[str, Cell]]:
    """Return defence -> difficulty -> cell, of pairs in percent."""
    return {
        defence: {
            level: Cell(mean=mean / PERCENT, deviation=deviation / PERCENT)
            for level, (mean, deviation) in zip(levels, pairs, strict=True)
        }
        for defence, pairs in columns.items()
    }


def _about(source: Mapping[str, str], table: str) -> tuple[str, ...]:
    return (
        f"{table} of {source['paper']} ({source['venue']}, {source['version']})",
        "accuracies of the paper's own runs: mean and deviation over 10 repetitions",
    )


def _attack(printed: str) -> str:
    return f"{SCENARIO}/{printed.lower()}"


@cache
def _table() -> dict[str, Any]:
    text = files("grb_check").joinpath("ranking/paper_figures/leaderboards.json").read_text("utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
