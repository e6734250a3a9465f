"""The leaderboards that GRB publishes: Tables 13 to 17 of its paper. Loads no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from grb_check.cases.metrics import Figure
from grb_check.ranking.boards.board import NO_ATTACK, Board, Cell

PUBLISHED: Final = "published"
PERCENT: Final = 100
SCENARIO: Final = "injection"  # of all published tables


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
    cells = {
        (titles[row], defence, level): Cell(mean=mean / PERCENT, deviation=deviation / PERCENT)
        for row, columns in record["accuracy"].items()
        for defence, pairs in columns.items()
        for level, (mean, deviation) in zip(levels, pairs, strict=True)
    }
    printed = {
        (measure, defence, level): Figure(mean / PERCENT, deviation / PERCENT)
        for measure, columns in record["defence_summary"].items()
        for defence, pairs in columns.items()
        for level, (mean, deviation) in zip(levels, pairs, strict=True)
    }
    return Board(
        name=PUBLISHED,
        dataset=dataset,
        difficulties=levels,
        attacks=tuple(map(_attack, record["attacks"])),
        defences=tuple(record["defences"]),
        cells=cells,
        printed=printed,
        about=_about(table["source"][0], record["table"]),
    )


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
