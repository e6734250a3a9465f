"""The picture at the head of a page."""

from __future__ import annotations

from dataclasses import replace

from outcome_factory import outcome
from record_factory import entry, record, view

from grb_check.cases.case import Case
from grb_check.cases.outcomes import Outcome, Reference
from grb_check.gate.limits import Gate
from grb_check.reports.html.picture import LEFT, RIGHT, WIDTH, Picture, pictures

SHIELD = {"shield": Reference(clean=(0.9,), attacked=(0.75,))}


def made(cell: str, attacked: float, model: str = "") -> Outcome:
    case = Case("synthetic-cora", *cell.split("/"), model)
    case_outcome = outcome(
        [(0.8, attacked)] * 2, [(0.8, 0.4)] * 2, case, model or "net", mlp=[(0.6, 0.6)] * 2
    )
    return replace(case_outcome, shipped=SHIELD)


def picture(*outcomes: Outcome, max_drop: float = 0.25) -> Picture:
    entries = [
        entry(case_outcome.case, case_outcome, Gate(max_drop=max_drop)) for case_outcome in outcomes
    ]
    (drawn,) = pictures(view(record(entries)))
    return drawn


def accuracy(x: float) -> float:
    return round((x - LEFT) / (WIDTH - RIGHT - LEFT), 2)


def test_each_attack_has_a_row_under_its_difficulty_and_scenario() -> None:
    """In the order of the cases, whichever came first; models share the rows."""
    cells = ("hard/injection/pgd", "easy/modification/dice", "easy/injection/rnd")
    result = picture(*(made(cell, 0.5, model) for model in ("a", "b") for cell in cells))
    assert [row.label for row in result.rows] == [
        "easy, injection",
        "rnd",
        "easy, modification",
        "dice",
        "hard, injection",
        "pgd",
    ]
    assert [len(row.dots) for row in result.rows] == [0, 2, 0, 2, 0, 2]
    assert result.models == ["a", "b"]
    heights = [row.y for row in result.rows]
    assert heights == sorted(heights)
    assert heights[-1] < result.height


def test_positions_are_accuracies() -> None:
    """Of the case, its limit, and other models under the same attack."""
    result = picture(made("easy/injection/pgd", 0.5))
    (_, row) = result.rows
    (dot,) = row.dots
    assert (accuracy(dot.attacked), accuracy(dot.clean)) == (0.5, 0.8)
    assert dot.limit is not None
    assert accuracy(dot.limit) == 0.6  # of 0.8 a quarter may be lost
    assert {kind: accuracy(x) for kind, x in row.marks} == {
        "undefended": 0.4,
        "no-graph": 0.6,
        "best": 0.75,
    }
    assert dot.interval is not None
    low, high = dot.interval
    assert low <= dot.attacked <= high
    assert [accuracy(x) for _, x in result.steps] == [0, 0.25, 0.5, 0.75, 1]


def test_what_is_unknown_has_no_mark_and_cases_without_figures_no_dot() -> None:
    """A run in which nothing was measured has no picture."""
    case = Case("synthetic-cora", "easy", "injection", "pgd")
    assert pictures(view(record([entry(case, None)]))) == []
    bare = outcome([(0.8, 0.5)] * 2, [(0.8, 0.4)] * 2, case)
    (_, row) = picture(bare).rows
    assert [kind for kind, _ in row.marks] == ["undefended"]


def test_the_budgets_of_an_attack_are_joined() -> None:
    """Those of one model, difficulty and attack, from the smallest budget to the largest."""
    cells = [
        f"easy/modification/{name}" for name in ("prbcd+budget=0.1", "dice", "prbcd+budget=0.05")
    ]
    result = picture(*(made(cell, 0.3, model) for model in ("a", "b") for cell in cells))
    rows = {row.label: row for row in result.rows}
    few, more = rows["prbcd at 0.05"], rows["prbcd at 0.1"]
    assert few.y < more.y
    joined = [(few.dots[0].attacked, few.y), (more.dots[0].attacked, more.y)]
    assert result.curves == [(0, joined), (1, joined)]
