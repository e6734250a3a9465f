"""Pictures of a page: accuracies of each case as dots on a scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from grb_check.attacks.names import split_budget
from grb_check.cases.outcomes import Outcome
from grb_check.reports.case_line import Line
from grb_check.reports.digest import Digest

WIDTH: Final = 440  # of the drawing, in its units; labels are then legible on a phone
LEFT, RIGHT, TOP, BOTTOM = 112, 22, 8, 26
ROW: Final = 18
STYLES: Final = 6  # colours of models


class Dot(NamedTuple):
    """One case: the accuracy that is left, with its interval, beside that without attack.

    Attributes:
        line: the case.
        style: number of the model's colour.
        attacked, clean: horizontal positions.
        interval: of the accuracy that is left; None if unknown.
        limit: position of the least accuracy that passes; None without a limit.
    """

    line: Line
    style: int
    attacked: float
    clean: float
    interval: tuple[float, float] | None
    limit: float | None


@dataclass(frozen=True, kw_only=True)
class PictureRow:
    """One attack at one difficulty, or a heading without dots.

    Attributes:
        label: the attack, or the difficulty and scenario.
        y: vertical position.
        dots: a case for each model.
        marks: class and position of what is left of other models under the same attack.
    """

    label: str
    y: float
    dots: Sequence[Dot] = ()
    marks: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True, kw_only=True)
class Picture:
    """All cases of a dataset, by difficulty.

    Attributes:
        dataset: name.
        models: in the order of their styles.
        width, height: of the drawing.
        left, right, floor: ends and height of the horizontal axis.
        steps: (accuracy, position) of the vertical grid lines.
        rows: from top to bottom.
        curves: style and points of each attack with several budgets, joined in their order.
        kinds: classes of the marks that occur.
    """

    dataset: str
    models: Sequence[str]
    width: int
    height: float
    left: int
    right: int
    floor: float
    steps: Sequence[tuple[float, float]]
    rows: Sequence[PictureRow]
    curves: Sequence[tuple[int, Sequence[tuple[float, float]]]]
    kinds: Sequence[str]


def pictures(digest: Digest) -> list[Picture]:
    """Return a picture for each dataset that has figures."""
    datasets = dict.fromkeys(dataset for _, dataset in digest.groups)
    result = (_picture(dataset, digest) for dataset in datasets)
    return [picture for picture in result if picture.rows]


def _picture(dataset: str, digest: Digest) -> Picture:
    lines = [line for line in digest.lines if line.row.case.dataset == dataset and line.row.outcome]
    models = list(dict.fromkeys(line.model for line in lines))
    lines.sort(key=lambda line: line.row.case.order[2:])
    rows: list[PictureRow] = []

    def add(label: str, dots: Sequence[Dot] = (), marks: Sequence[tuple[str, float]] = ()) -> None:
        rows.append(
            PictureRow(label=label, y=TOP + ROW * (len(rows) + 0.5), dots=dots, marks=marks)
        )

    for (level, scenario), group in groupby(
        lines, key=lambda line: (line.row.case.difficulty, line.row.case.scenario)
    ):
        add(f"{level}, {scenario}")
        for attack, cases in groupby(group, key=lambda line: line.row.case.attack):
            members = list(cases)
            first = members[0].row.outcome
            dots = [_dot(line, models.index(line.model) % STYLES) for line in members]
            add(
                attack.replace("+budget=", " at "), dots, _marks(first) if first is not None else ()
            )
    return Picture(
        dataset=dataset,
        models=models,
        width=WIDTH,
        height=TOP + ROW * len(rows) + BOTTOM,
        left=LEFT,
        right=WIDTH - RIGHT,
        floor=TOP + ROW * len(rows),
        steps=[(step / 4, _x(step / 4)) for step in range(5)],
        rows=rows,
        curves=_curves(rows),
        kinds=list(dict.fromkeys(kind for row in rows for kind, _ in row.marks)),
    )


def _curves(rows: Sequence[PictureRow]) -> list[tuple[int, list[tuple[float, float]]]]:
    result: dict[tuple[str, str, str, str, int], list[tuple[float, float]]] = {}
    for row in rows:
        for dot in row.dots:
            case = dot.line.row.case
            attack, budget = split_budget(case.attack)
            if budget is not None:
                key = (case.difficulty, case.scenario, attack, dot.line.model, dot.style)
                result.setdefault(key, []).append((dot.attacked, row.y))
    return [(key[-1], points) for key, points in result.items() if len(points) > 1]


def _dot(line: Line, style: int) -> Dot:
    outcome, verdict = line.row.outcome, line.row.verdict
    assert outcome is not None
    drops = verdict.interval if verdict is not None else None
    return Dot(
        line=line,
        style=style,
        attacked=_x(outcome.attacked),
        clean=_x(outcome.clean),
        interval=None
        if drops is None
        else (_from_left(outcome, drops[1]), _from_left(outcome, drops[0])),
        limit=None if line.limit is None else _from_left(outcome, line.limit),
    )


def _marks(outcome: Outcome) -> list[tuple[str, float]]:
    best = outcome.most_robust
    result = [
        ("undefended", outcome.undefended),
        ("no-graph", outcome.no_graph),
        ("best", None if best is None else best[1]),
    ]
    return [(kind, _x(value)) for kind, value in result if value is not None]


def _from_left(outcome: Outcome, drop: float) -> float:
    """The position of the accuracy that a drop leaves."""
    return _x(outcome.clean * (1.0 - drop))


def _x(accuracy: float) -> float:
    share = min(max(accuracy, 0.0), 1.0)
    return round(LEFT + share * (WIDTH - RIGHT - LEFT), 1)
