"""The table under pytest's report, compared whole."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec
from outcome_factory import CASE, outcome
from record_factory import (
    ENVIRONMENT,
    SETTINGS,
    record,
    view,
)

from grb_check.cases.case import Case
from grb_check.cases.expected_cases import ExpectedCases
from grb_check.cases.node_ids import node_id_of
from grb_check.cases.outcomes import Outcome
from grb_check.cases.shards import RunCases
from grb_check.gate.limits import Gate, judge
from grb_check.ranking.comparison_models import Boards
from grb_check.reports import terminal
from grb_check.reports.digest import digest
from grb_check.reports.record import record_of
from grb_check.settings.settings import Settings


class Screen:
    """Collects the lines that a terminal reporter would show."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def section(self, title: str, **_: bool) -> None:
        self.lines.append(f"== {title}")

    def write_line(self, line: str, **_: bool) -> None:
        self.lines.append(line)


def shown(
    *entries: tuple[Case, Outcome | None], gate: Gate | None = None, width: int | None = None
) -> list[str]:
    expected_cases = ExpectedCases()
    for case, measured_outcome in entries:
        fields = {"case": asdict(case), "outcome": None, "verdict": None}
        result = "error"
        if measured_outcome is not None:
            verdict = judge(measured_outcome, gate or Gate(max_drop=0.55))
            fields |= {"outcome": measured_outcome.to_dict(), "verdict": asdict(verdict)}
            result = "pass" if verdict.passed else "fail"
        expected_cases.enter(node_id_of(case), fields, result, "")  # type: ignore[arg-type]
    made_of = record_of(
        msgspec.convert(SETTINGS, Settings),
        expected_cases.rows,
        missing=(),
        run_cases=RunCases(),
        boards=Boards(),
        baseline=None,
        environment=ENVIRONMENT,
        definitions={},
    )
    screen = Screen()
    terminal.write_run(screen, digest(made_of), width=width)
    return screen.lines


def test_the_table_shows_every_case_in_order_with_its_verdict() -> None:
    """Passed, failed, failed for its clean accuracy, and ended in an error."""
    reference = [(0.8, 0.6), (0.8, 0.6)]
    hard = Case("synthetic-cora", "hard", "modification", "rnd")
    dice = Case("synthetic-cora", "hard", "modification", "dice")
    floor = Case("synthetic-cora", "medium", "injection", "pgd")
    lines = shown(
        (dice, None),
        (hard, outcome([(0.8, 0.2), (0.8, 0.2)], reference, hard)),
        (floor, outcome([(0.3, 0.3), (0.3, 0.3)], reference, floor)),
        (CASE, outcome([(0.8, 0.6), (0.8, 0.58)], reference)),
    )
    assert lines[1].startswith("No more robust than an undefended model against")
    assert "; not judged at medium, where it classifies only 30% correctly without" in lines[1]
    assert lines[-1].startswith("mypkg:build keeps on average 40 % under these attacks")
    assert [lines[0], *lines[2:-1]] == [
        "== graph robustness",
        "mypkg:build on synthetic-cora (made for tests)",
        "difficulty  attack             clean  attacked   drop          limit  undefended  verdict",
        "easy        injection/pgd      80.0%     59.0%  26.3%  +- 1.8  55.0%       60.0%  pass",
        "medium      injection/pgd      30.0%     30.0%   0.0%  +- 0.0  55.0%       60.0%  fail "
        "(clean)",
        "hard        modification/rnd   80.0%     20.0%  75.0%  +- 0.0  55.0%       60.0%  fail",
        "hard        modification/dice      -         -      -              -              error",
        "",
        "easy, medium, hard: nodes of low to high degree; drop: share of the clean figure that "
        "is lost; +-: its deviation over the repeats; undefended: the least robust of the "
        "undefended models",
    ]


def test_a_narrow_terminal_has_no_columns_of_references() -> None:
    """They are named below; the spread and the clean accuracy go after them."""
    measured = outcome([(0.8, 0.6), (0.8, 0.58)], [(0.8, 0.6), (0.8, 0.6)])
    widths = {width: shown((CASE, measured), width=width) for width in (None, 85, 70, 20)}
    heads = {width: lines[3].split() for width, lines in widths.items()}
    below = {width: lines[6].rpartition("; ")[2] for width, lines in widths.items()}
    always = ["difficulty", "attack", "attacked", "drop", "limit", "verdict"]
    assert set(heads[None]) == {*always, "clean", "undefended"}
    assert heads[85] == heads[None]
    assert set(heads[70]) == {*always, "clean"}
    assert heads[20] == always
    assert max(map(len, widths[70][3:5])) <= 70
    assert below[70] == "-v, or a wider terminal, also shows: +-, undefended"
    assert below[20] == "-v, or a wider terminal, also shows: clean, +-, undefended"
    assert "also shows" not in below[None]


def table(*entries: dict[str, Any]) -> list[list[str]]:
    """Return the cells of the table of these cases, its heading first."""
    screen = Screen()
    terminal.write_run(screen, view(record(entries)))
    return [line.split() for line in screen.lines[2 : 3 + len(entries)]]
