"""The layout of the terminal's table: its columns, and the order of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from grb_check.errors import choose

Sort: TypeAlias = Literal["order", "drop", "loss", "attacked", "clean", "attack", "verdict"]
Column: TypeAlias = Literal[
    "clean", "attacked", "drop", "reference", "limit", "loss", "rank", "seconds", "verdict"
]
SORTS: Final[tuple[Sort, ...]] = get_args(Sort)
COLUMNS: Final[tuple[Column, ...]] = get_args(Column)


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """The layout of the terminal's table.

    Attributes:
        sort: `order` is that of the cases; otherwise the worst, or the first name, comes first.
        columns: after the names of the cases; empty for those that have something to show.
    """

    sort: Sort = "order"
    columns: tuple[Column, ...] = ()


def read_layout(sort: str | None, columns: Sequence[str], prefix: str) -> TableLayout:
    """Return the layout that options give.

    Args:
        sort: name of the order; None for that of the cases.
        columns: their names, in order.
        prefix: of the options' names in messages.

    Raises:
        UsageError: a name is unknown.
    """
    chosen = [choose(f"column of {prefix}columns", name, COLUMNS) for name in columns]
    return TableLayout(
        sort=choose(f"order of {prefix}sort", "order" if sort is None else sort, SORTS),
        columns=tuple(dict.fromkeys(chosen)),
    )
